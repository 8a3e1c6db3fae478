"""Rows that need two models: by way of the pivot language, or because a fallback takes over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog import Catalog
from contract.languages import choose_language, list_variants
from gateway.cache.sentences import Answer
from gateway.errors import NotReady, Problem, UnknownLanguage
from text.composition import Row
from text.errors import LanguageNotServed

if TYPE_CHECKING:
    from gateway.services.translation import ModelRows


@dataclass(frozen=True)
class ReplacedRows:
    """Rows of a model, which its fallback answers while the model is down or if the quality of
    its answer is `below` a limit, but only for languages that the fallback reads."""

    own: ModelRows
    other: ModelRows
    below: float
    is_read: Callable[[str], bool]

    def prepare(
        self, rows: Collection[Row], more: Collection[Row] = ()
    ) -> Mapping[Row, Answer]:
        """Prepare the model alone: few rows need its fallback."""
        return self.own.prepare(rows, more)

    def predict(self, row: Row) -> Answer:
        """Return the model's own answer, or the better one of both."""
        is_read = self.is_read(row[0])
        try:
            answer = self.own.ask(row)
        except NotReady:
            if not is_read:
                raise
            return self.other.predict(row)
        if is_read and answer.get("quality", 1.0) < self.below:
            try:
                other = self.other.ask(row)
            except Problem:  # the first answer remains
                other = answer
            if other.get("quality", 0.0) > answer["quality"]:
                self.other.name(other)
                return other
        self.own.name(answer)
        return answer


@dataclass(frozen=True)
class PivotedRows:
    """Rows for one target, some of which go through the pivot: the languages in `via`."""

    first: ModelRows | ReplacedRows
    last: ModelRows | ReplacedRows
    pivot: str
    via: Collection[str]

    def prepare(self, rows: Collection[Row]) -> Mapping[Row, Answer]:
        """Prepare both models. Until the first has answered, a row counts the same for both."""
        via = [row for row in rows if row[0] in self.via]
        found = self.first.prepare(via)
        follow = [row for answer in found.values() if (row := self._follow(answer))]
        direct = (row for row in rows if row[0] not in self.via)
        missing = [row for row in via if row not in found]
        return self.last.prepare([*direct, *follow], missing)

    def predict(self, row: Row) -> Answer:
        """Return the last answer, with the quality and warnings of both."""
        if row[0] not in self.via:
            return self.last.predict(row)
        first = self.first.predict(row)
        following = self._follow(first)
        return _add(first, self.last.predict(following)) if following else first

    def _follow(self, first: Answer) -> Row | None:
        """Return the row for the last model, unless its text is empty."""
        text = first["translated"]
        return (self.pivot, text) if text.strip() else None


def _add(first: Answer, last: Answer) -> Answer:
    """Add the scores, quality and warnings of the first answer to the last."""

    def add(found: Answer) -> Answer:
        return found | {"score": round((first["score"] + found["score"]) / 2, 4)}

    added = add(last)
    added["quality"] = round(first.get("quality", 0.0) * last.get("quality", 0.0), 4)
    if others := last.get("alternatives"):
        added["alternatives"] = [*map(add, others)]
    warnings = dict.fromkeys((*first.get("warnings", ()), *last.get("warnings", ())))
    return added | ({"warnings": [*warnings]} if warnings else {})


def refuse_pair(catalog: Catalog, source: str, target: str) -> UnknownLanguage:
    """Return the refusal of a text in `source`, which cannot be translated into `target`. It
    lists the targets of the source or, if there are none, the sources of the target."""
    if targets := catalog.list_targets(source):
        given: Any = "tgt_lang", target, list_variants(targets), f" from {source!r}"
    else:
        sources = catalog.list_sources(choose_language(target, catalog.languages))
        given = "src_lang", source[:40], list_variants(sources)
    return UnknownLanguage(LanguageNotServed(*given))
