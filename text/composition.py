"""The part of a translation that needs no server: how texts are read, and how a model's
answers make up new texts. The gateway and bulk work share it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from text import html_runs
from text.capitals import to_capitals, to_sentence_case
from text.document import Document, Segment, TextFormat, divide, take_apart
from text.langid import UNDETERMINED, Guess, Identifier
from text.options import Tags, TranslationRequest
from text.placeholders import Placeholder, Role, restore
from text.punctuation import mend
from text.reading import ReadingJob
from text.term_cache import Choice
from text.terms import settle

#: A part of a sentence may have more tokens than its share of the characters.
_MARGIN = 0.8
#: Characters of a text with tags in which its language is looked for.
_LOOKED_AT = 20_000
#: Places that a warning names. It only counts further ones.
_PLACES = 3

_UNIDENTIFIED = "too little evidence for the language of this text: name src_lang"
_TORN = "cut from a sentence that is longer than the model takes"


@dataclass(frozen=True)
class Rendering:
    """A translation, and its mean log-probability per token if a model made it."""

    text: str
    score: float | None = None


@dataclass(frozen=True)
class Warned:
    """A warning about characters `start` to `end` of a text."""

    start: int
    end: int
    warning: str


@dataclass(frozen=True)
class Result:
    """The renderings of a sentence or a text, the translation first."""

    renderings: tuple[Rendering, ...]
    warned: tuple[Warned, ...] = ()


@dataclass(frozen=True)
class TranslatedText:
    """The answer to one text. It has a `guess` if the client did not name the language."""

    renderings: tuple[Rendering, ...]
    warnings: tuple[str, ...] = ()
    guess: Guess | None = None
    #: The characters that a key pays for.
    characters: int = 0


def identify(identifier: Identifier, text: str, tags: Tags | None) -> Guess:
    """The language of a text, whose tags say nothing of it."""
    return identifier.identify(html_runs.strip(text[:_LOOKED_AT]) if tags else text)


def plan_reading(
    wanted: TranslationRequest,
    sources: Sequence[str],
    max_rows: int,
    dictionaries: Choice | None = None,
    *,
    is_counted: bool = False,
) -> tuple[list[int], ReadingJob]:
    """The job for all texts that need a translation, or, if it `is_counted`, a look at their
    markup, and their indices. `sources` are the languages of the request's texts."""
    needed = {
        index: source
        if text.strip() and source not in (wanted.target, UNDETERMINED)
        else ""
        for index, (text, source) in enumerate(zip(wanted.texts, sources, strict=True))
    }
    chosen = [
        index
        for index, source in needed.items()
        if source or (is_counted and wanted.tags)
    ]
    return chosen, ReadingJob(
        tuple((wanted.texts[index], needed[index]) for index in chosen),
        wanted.tags,
        wanted.is_protected,
        max_rows,
        wanted.splitting,
        wanted.target,
        dictionaries,
    )


def prepare(segment: Segment, source: str) -> str:
    """A sentence as the model gets it."""
    if segment.is_in_capitals:
        return to_sentence_case(segment.prepared, source)
    return segment.prepared


def describe_row(
    wanted: TranslationRequest, source: str, prepared: str
) -> dict[str, Any]:
    """The row that asks a model for a sentence."""
    return {
        "src_lang": source,
        "src_text": prepared,
        "tgt_lang": wanted.target,
        "beam_size": wanted.beam_size,
        "alternatives": wanted.alternatives,
    }


def compose(
    segment: Segment,
    format: TextFormat,
    pair: tuple[str, str],
    answer: Mapping[str, Any],
) -> Result | Document:
    """Compose the translation from a model's answer to a sentence in a pair of languages.
    Returns the parts to translate instead if the answer has lost a placeholder."""
    renderings = list(_read_renderings(answer, segment, format, pair))
    if not renderings:
        return take_apart(segment, format)
    warnings = [*answer.get("warnings", []), *([_TORN] if segment.is_torn else [])]
    end = segment.start + len(segment.text)
    warned = (Warned(segment.start, end, warning) for warning in warnings)
    return Result(tuple(renderings), tuple(warned))


def divide_further(
    segment: Segment, format: TextFormat, refusal: Mapping[str, Any]
) -> Document | None:
    """Divide a sentence that is too long for the model, as the further fields of its
    `refusal` say. None if they say nothing of it, or if the sentence cannot be divided."""
    tokens, limit = refusal.get("tokens"), refusal.get("limit")
    if not tokens or not limit:
        return None
    share = _MARGIN * limit / tokens
    document = divide(segment, max(1, int(len(segment.text) * share)), format)
    if any(len(part.text) == len(segment.text) for part in document.segments):
        return None
    return document


def join(document: Document, results: Sequence[Result]) -> Result:
    """The renderings of a document: the best of each sentence, the second best, and so on. A
    sentence with fewer renderings repeats its last."""
    count = max((len(result.renderings) for result in results), default=1)
    renderings = []
    for rank in range(count):
        chosen = [r.renderings[min(rank, len(r.renderings) - 1)] for r in results]
        scores = [r.score for r in chosen if r.score is not None]
        text = document.render(rendering.text for rendering in chosen)
        renderings.append(Rendering(text, statistics.fmean(scores) if scores else None))
    warned = (warned for result in results for warned in result.warned)
    return Result(tuple(renderings), tuple(warned))


def leave(text: str, source: str, guess: Guess | None) -> TranslatedText:
    """The answer to a text that stays as it is."""
    is_unknown = text.strip() and source == UNDETERMINED
    warned = (_UNIDENTIFIED,) if is_unknown else ()
    return TranslatedText((Rendering(text),), warned, guess)


def answer(document: Document, result: Result, guess: Guess | None) -> TranslatedText:
    """The answer to a text that was read as `document`."""
    is_whole = len(document.segments) == 1
    warnings = _summarize(result.warned, is_whole=is_whole)
    return TranslatedText(result.renderings, tuple(warnings), guess)


def _read_renderings(
    answer: Mapping[str, Any],
    segment: Segment,
    format: TextFormat,
    pair: tuple[str, str],
) -> Iterator[Rendering]:
    """The translation and its alternatives, finished and with placeholders restored. Empty
    if the translation has lost one. What differs in its final mark only is one rendering."""
    finish: Callable[[str], tuple[str, Sequence[Placeholder]]]
    finish = partial(_finish, segment, prepare(segment, pair[0]), pair)
    seen: set[str] = set()
    main = {"text": answer["translated"], "score": answer.get("score")}
    for number, found in enumerate([main, *answer.get("alternatives", [])]):
        text = restore(*finish(found["text"]), format.write)
        if text is None and number == 0:
            return
        if text is not None and text not in seen:
            seen.add(text)
            yield Rendering(text, found["score"])


def _finish(
    segment: Segment, prepared: str, pair: tuple[str, str], translated: str
) -> tuple[str, Sequence[Placeholder]]:
    """A model's translation as it is to be written, with its placeholders."""
    text = _write(segment, prepared, pair, translated)
    return text, settle(segment.text, segment.placeholders, text, pair)


def _write(
    segment: Segment, prepared: str, pair: tuple[str, str], translated: str
) -> str:
    """A model's translation with the text's final marks and capitals. What the model
    copies stays as it was."""
    if translated == prepared:
        return segment.prepared
    source, target = pair
    tags = _find_last_tags(segment, prepared)
    ending = tags if translated.endswith(tags) else ""
    bare = translated.removesuffix(ending)
    translated = mend(prepared.removesuffix(tags), bare, source, target) + ending
    return to_capitals(translated, target) if segment.is_in_capitals else translated


def _find_last_tags(segment: Segment, prepared: str) -> str:
    """The placeholders of closing tags at the end: the final mark may stand before them."""
    end = len(prepared)
    for number, placeholder in reversed(list(enumerate(segment.placeholders))):
        tag = f"{{{number}}}"
        if placeholder.role is not Role.CLOSING or not prepared.endswith(tag, 0, end):
            break
        end -= len(tag)
    return prepared[end:]


def _summarize(warned: Iterable[Warned], *, is_whole: bool) -> Iterator[str]:
    """Each warning once, with its places unless it is about the whole text."""
    places: dict[str, list[str]] = {}
    for found in warned:
        places.setdefault(found.warning, []).append(f"{found.start}-{found.end}")
    for warning, spans in places.items():
        more = f" and {len(spans) - _PLACES} more" if len(spans) > _PLACES else ""
        where = f"characters {', '.join(spans[:_PLACES])}{more}: "
        yield warning if is_whole and len(spans) == 1 else where + warning
