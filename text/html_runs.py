"""Reads HTML as runs of text with placeholders. Every character of the input is in exactly
one run, so untranslated parts are preserved exactly.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from contract.markup import INLINE, VOID, scan, take_element, unescape
from text.options import HTML_TAGS, Tags
from text.placeholders import Placeholder, Role

#: A tag for those who only look at a text: `>` in quoted values ends it as well.
_PLAIN_TAG = re.compile(r"<[^\s\d<>=][^<>]*+>")


@dataclass(frozen=True)
class Run:
    """A stretch of text with inline tags as placeholders. Where it `is_markup` it is kept."""

    text: str
    placeholders: tuple[Placeholder, ...] = ()
    is_markup: bool = False


def parse(source: str, tags: Tags = HTML_TAGS) -> list[Run]:
    """The runs of an HTML document or fragment, in order.

    Text is unescaped; `escape` reverses that. Nothing is refused: like a browser, the reader
    keeps bad HTML as markup or takes it for text.
    """
    inline = INLINE.union(tags.inline).difference(tags.splitting)
    builder = Builder()
    tokens = scan(source)
    for token in tokens:
        is_ignored = token.is_start and token.name in tags.ignored
        is_kept = token.is_kept or is_ignored
        is_empty = token.name in VOID or (is_ignored and token.is_empty)
        raw = take_element(token, tokens) if is_kept and not is_empty else token.raw
        if token.is_text:
            builder.add_text(unescape(raw))
        elif token.name not in inline:
            builder.add_markup(raw)
        elif is_kept:
            builder.add_placeholder(raw, Role.WORD)
        elif is_empty:
            builder.add_placeholder(raw, Role.LOOSE)
        else:
            builder.add_placeholder(
                raw, Role.OPENING if token.is_start else Role.CLOSING
            )
    return builder.finish()


def strip(source: str) -> str:
    """The text of some HTML without its tags, roughly, for the start of a long one."""
    return unescape(_PLAIN_TAG.sub(" ", source))


def escape(text: str) -> str:
    """Text in the form that HTML needs."""
    return html.escape(text, quote=False).replace("\u00a0", "&nbsp;")


def show(source: str) -> str:
    """Return the visible text of a piece of HTML, with `<br>` as a line break."""
    shown = (
        "\n" if t.name == "br" else t.raw if t.is_text else "" for t in scan(source)
    )
    return unescape("".join(shown))


@dataclass
class Builder:
    """Collects tokens into runs."""

    _runs: list[Run] = field(default_factory=list)
    _markup: list[str] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _length: int = 0
    _placeholders: list[Placeholder] = field(default_factory=list)

    def add_text(self, text: str) -> None:
        """Text, without its escapes."""
        self._end_markup()
        self._texts.append(text)
        self._length += len(text)

    def add_placeholder(self, shown: str, role: Role) -> None:
        """A tag or an element inside a sentence."""
        self._end_markup()
        self._placeholders.append(Placeholder(self._length, self._length, shown, role))

    def add_markup(self, raw: str) -> None:
        """Markup between sentences."""
        self._end_text()
        self._markup.append(raw)

    def finish(self) -> list[Run]:
        """All runs."""
        self._end_text()
        self._end_markup()
        return self._runs

    def _end_text(self) -> None:
        if self._texts or self._placeholders:
            self._runs.append(Run("".join(self._texts), tuple(self._placeholders)))
            self._texts, self._length, self._placeholders = [], 0, []

    def _end_markup(self) -> None:
        if self._markup:
            self._runs.append(Run("".join(self._markup), is_markup=True))
            self._markup = []
