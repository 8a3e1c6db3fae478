"""The part of a translation that needs no server, shared by the gateway and bulk jobs."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple

from contract.languages import VARIANTS
from text import markup_runs, messages
from text.document import (
    Document,
    PartStart,
    ReadingJob,
    Segment,
    TextFormat,
    collect,
    divide,
    scan,
    take_apart,
)
from text.errors import NotWellFormed, SentenceRefused, TextError
from text.langid import UNDETERMINED, Guess, Identifier
from text.options import TranslationRequest
from text.orthography import mend, to_capitals, to_sentence_case
from text.placeholders import Placeholder, Role, restore
from text.terms import Choice, settle

#: A part of a sentence may have more tokens than its share of the characters.
_MARGIN = 0.8
#: The number of characters of a text with tags from which its language is identified.
_LOOKED_AT = 20_000
#: The number of places that a warning lists; further ones are only counted.
_PLACES = 3

_UNIDENTIFIED = "too little evidence for the language of this text: name src_lang"
_NO_DICTIONARY = "the glossary has no dictionary from {} to {}"
_UNSURE = (
    "its translation's quality is {}, below min_quality {}: this is the text itself"
)
_TORN = "cut from a sentence that is longer than the model takes"


#: A row's language and text.
Row = tuple[str, str]


class PlannedSentence(NamedTuple):
    """A sentence, its language, and its text as the model receives it."""

    segment: Segment
    source: str
    prepared: str

    @property
    def row(self) -> Row:
        """The row to send to a model."""
        return self.source, self.prepared


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
    """The renderings of a sentence or a text, the translation first.

    The quality of a text is that of its worst sentence: a mean would hide one hallucination
    among many good sentences, and a product would be low for every long text.
    """

    renderings: tuple[Rendering, ...]
    warned: tuple[Warned, ...] = ()
    #: The probability that the translation is right.
    quality: float = 1.0
    #: The results of a text's sentences.
    parts: tuple[Result, ...] = ()


@dataclass(frozen=True)
class TranslatedText:
    """The answer for one text. It has a `guess` if the client did not name the language."""

    renderings: tuple[Rendering, ...]
    warnings: tuple[str, ...] = ()
    guess: Guess | None = None
    #: The characters charged to a key.
    characters: int = 0
    quality: float = 1.0
    sentences: tuple[Result, ...] = ()


def identify(identifier: Identifier, text: str, wanted: TranslationRequest) -> Guess:
    """Identify the language of a text, ignoring its tags and arguments."""
    if wanted.tags:
        text = markup_runs.strip(text[:_LOOKED_AT], wanted.tags)
    return identifier.identify(messages.strip(text), wanted.languages)


@dataclass
class TranslationPlan:
    """The plan for a request: which texts are read and how, the rows of their sentences, and
    the answers. A text with a guess is in the language that was identified."""

    wanted: TranslationRequest
    guesses: Sequence[Guess | None]
    max_rows: int
    dictionaries: Choice | None = None

    def __post_init__(self) -> None:
        wanted, texts = self.wanted, []
        self.sources = [
            guess.language if guess else wanted.model_source or UNDETERMINED
            for guess in self.guesses
        ]
        for text, source in zip(wanted.texts, self.sources, strict=True):
            language = source if _is_to_do(wanted, text, source) else ""
            texts.append((text if language or wanted.tags else "", language))
        #: Reads all texts to translate, and the others for their markup, which is not charged.
        self.job = ReadingJob(
            tuple(texts),
            wanted.tags,
            wanted.is_protected,
            self.max_rows,
            wanted.splitting,
            wanted.model_target,
            self.dictionaries,
        )

    def read(self, documents: Iterable[Document]) -> None:
        """Set the documents that the job has read, and their rows without duplicates."""
        self._documents = list(documents)
        target = self.wanted.target_language
        self._sentences = [
            list_sentences(document, source, target)
            for document, source in zip(self._documents, self.sources, strict=True)
        ]
        sentences = chain.from_iterable(self._sentences)
        self.rows = dict.fromkeys(s.row for s in sentences if s.source != target)

    @property
    def characters(self) -> int:
        """The number of characters of all texts without markup, translated or not."""
        return sum(map(self._count, range(len(self.wanted.texts))))

    def find(self, index: int) -> tuple[Document, list[PlannedSentence]] | None:
        """Return the document of a text and its sentences, or None if the text is unchanged."""
        document = self._documents[index]
        return (document, self._sentences[index]) if document.pieces else None

    def finish(self, index: int, result: Result | None) -> TranslatedText:
        """Return the answer for a text. A text without a result stays unchanged."""
        guess, source = self.guesses[index], self.sources[index]
        count = self._count(index)
        if result is None:
            text = self.wanted.texts[index]
            is_unknown = text.strip() and source == UNDETERMINED
            warned = (_UNIDENTIFIED,) if is_unknown else ()
            quality = 0.0 if is_unknown and any(map(str.isalpha, text)) else 1.0
            return TranslatedText((Rendering(text),), warned, guess, count, quality)
        is_whole = len(self._sentences[index]) == 1
        warnings = tuple(_summarize(result.warned, is_whole=is_whole))
        if self.dictionaries and source not in self.dictionaries.by_source:
            warnings += (_NO_DICTIONARY.format(source, self.wanted.target),)
        renderings, quality = result.renderings, result.quality
        if quality < self.wanted.min_quality:
            renderings = (Rendering(self.wanted.texts[index]),)
            warnings += (_UNSURE.format(quality, self.wanted.min_quality),)
        return TranslatedText(renderings, warnings, guess, count, quality, result.parts)

    def _count(self, index: int) -> int:
        text = self.wanted.texts[index]
        return self._documents[index].characters if self.wanted.tags else len(text)


def list_sentences(
    document: Document, source: str, target_language: str
) -> list[PlannedSentence]:
    """List a document's sentences for the model, with Chinese in simplified characters."""
    is_simplified = source == "zh" != target_language
    sentences = []
    for segment in document.segments:
        prepared = segment.prepared
        if segment.is_in_capitals:
            prepared = to_sentence_case(prepared, source)
        if is_simplified:
            prepared = _convert(prepared, source)
        sentences.append(PlannedSentence(segment, source, prepared))
    return sentences


def answer_here(
    sentence: PlannedSentence, target_language: str
) -> dict[str, Any] | None:
    """Return the answer for a sentence in the target's language, which is only converted, or
    None if a model has to translate it."""
    is_same = sentence.source == target_language
    return {"translated": sentence.prepared, "quality": 1.0} if is_same else None


def _is_to_do(wanted: TranslationRequest, text: str, source: str) -> bool:
    """Whether a text needs to be translated or converted."""
    if not text.strip() or source == UNDETERMINED:
        return False
    if source != wanted.target_language:
        return True
    if wanted.source:
        return wanted.source != wanted.target
    start = text[:_LOOKED_AT]
    return source in VARIANTS.values() and _convert(start, wanted.target) != start


def _convert(text: str, variant: str) -> str:
    from text.variants import convert  # loads OpenCC

    return convert(text, variant)


def describe_row(wanted: TranslationRequest, row: Row) -> dict[str, Any]:
    """Return a row in the form that a model receives."""
    source, text = row
    return {
        "src_lang": source,
        "src_text": text,
        "tgt_lang": wanted.model_target,
        "beam_size": wanted.beam_size,
        "alternatives": wanted.alternatives,
    }


def compose(
    sentence: PlannedSentence,
    format: TextFormat,
    wanted: TranslationRequest,
    answer: Mapping[str, Any],
) -> Result | Document:
    """Compose the translation from a model's answer to a sentence. Returns the parts to
    translate instead if the answer has lost a placeholder."""
    segment, target = sentence.segment, wanted.target_language
    own = segment.adapt(format)
    pair = (sentence.source, target)
    is_converted = wanted.target != wanted.model_target or sentence.source == target
    placeholders: Sequence[Placeholder] = segment.placeholders
    has_terms = any(p.role in (Role.TERM, Role.RAISED) for p in placeholders)
    renderings: dict[str, Rendering] = {}
    main = {"text": answer["translated"], "score": answer.get("score")}
    for found in [main, *answer.get("alternatives", [])]:
        written = _write_translation(sentence, target, found["text"])
        if is_converted:
            written = _convert(written, wanted.target)
        if has_terms:
            placeholders = settle(segment.text, segment.placeholders, written, pair)
        text = restore(written, placeholders, own.write)
        if text is None and found is main:
            return take_apart(segment, format)
        if text is not None:
            # Renderings that differed only in their final mark are now the same.
            renderings.setdefault(text, Rendering(text, found["score"]))
    warnings = [*answer.get("warnings", []), *([_TORN] if segment.is_torn else [])]
    end = segment.start + len(segment.text)
    warned = (Warned(segment.start, end, warning) for warning in warnings)
    return Result(tuple(renderings.values()), tuple(warned), answer.get("quality", 0.0))


def divide_further(
    segment: Segment, format: TextFormat, refusal: Mapping[str, Any]
) -> Document | None:
    """Divide a sentence that is too long for the model, by the tokens and limit in its
    `refusal`. Returns None without these, or if the sentence cannot be divided."""
    tokens, limit = refusal.get("tokens"), refusal.get("limit")
    if not tokens or not limit:
        return None
    share = _MARGIN * limit / tokens
    document = divide(segment, max(1, int(len(segment.text) * share)), format)
    if any(len(part.text) == len(segment.text) for part in document.segments):
        return None
    return document


def join(document: Document, results: Sequence[Result]) -> Result:
    """Return the renderings of a document: the best of each sentence, the second best, and so
    on. A sentence with fewer renderings repeats its last."""
    if len(results) == len(document.pieces) == 1:  # the sentence is the whole document
        (one,) = results
        return Result(one.renderings, one.warned, one.quality, (one,))
    count = max((len(result.renderings) for result in results), default=1)
    renderings = []
    for rank in range(count):
        chosen = [r.renderings[min(rank, len(r.renderings) - 1)] for r in results]
        scores = [r.score for r in chosen if r.score is not None]
        text = document.render(rendering.text for rendering in chosen)
        renderings.append(Rendering(text, statistics.fmean(scores) if scores else None))
    warned = (warned for result in results for warned in result.warned)
    quality = min((result.quality for result in results), default=1.0)
    return Result(tuple(renderings), tuple(warned), quality, tuple(results))


def join_first(document: Document, results: Sequence[Result]) -> Result | None:
    """Return the beginning of a document, up to the end of its first sentences, or None if its
    parts are in another order than its sentences."""
    if any(isinstance(piece, PartStart) for piece in document.pieces):
        return None
    ends = (n for n, p in enumerate(document.pieces, 1) if isinstance(p, Segment))
    end = next(islice(ends, len(results) - 1, None))
    return join(replace(document, pieces=document.pieces[:end]), results)


def _write_translation(sentence: PlannedSentence, target: str, translated: str) -> str:
    """Return the translation with the text's final marks and capitals; a copy is unchanged."""
    segment, source, prepared = sentence
    if translated == prepared:
        return segment.prepared
    tags = _find_last_tags(segment, prepared)
    ending = tags if translated.endswith(tags) else ""
    bare = translated.removesuffix(ending)
    translated = mend(prepared.removesuffix(tags), bare, source, target) + ending
    return to_capitals(translated, target) if segment.is_in_capitals else translated


def _find_last_tags(segment: Segment, prepared: str) -> str:
    """Return the placeholders of closing tags at the end, which may follow the final mark."""
    end = len(prepared)
    for number, placeholder in reversed(list(enumerate(segment.placeholders))):
        tag = f"{{{number}}}"
        if placeholder.role is not Role.CLOSING or not prepared.endswith(tag, 0, end):
            break
        end -= len(tag)
    return prepared[end:]


def _summarize(warned: Iterable[Warned], *, is_whole: bool) -> Iterator[str]:
    """Yield each warning once, with its places unless it is about the whole text."""
    places: dict[str, list[str]] = {}
    for found in warned:
        places.setdefault(found.warning, []).append(f"{found.start}-{found.end}")
    for warning, spans in places.items():
        more = f" and {len(spans) - _PLACES} more" if len(spans) > _PLACES else ""
        where = f"characters {', '.join(spans[:_PLACES])}{more}: "
        yield warning if is_whole and len(spans) == 1 else where + warning


def translate_batch(
    texts: Sequence[str],
    request: TranslationRequest,
    identifier: Identifier,
    ask: Callable[
        [Sequence[dict[str, Any]]], Sequence[dict[str, Any] | SentenceRefused]
    ],
) -> list[TranslatedText | TextError]:
    """Answer each text as `POST /translate` does. `ask` is called with the rows of all
    sentences, then with those of all parts of sentences that the model refused, and so on."""
    found: list[Any] = [
        _plan_text(replace(request, texts=(text,)), identifier) for text in texts
    ]
    answers: dict[Row, Any] = {}
    while True:
        for place, plan in enumerate(found):
            if isinstance(plan, TranslationPlan):
                found[place] = _answer_text(plan, answers)
        missing = [row for row, answer in answers.items() if answer is None]
        if not missing:
            return found
        rows = [describe_row(request, row) for row in missing]
        answers |= zip(missing, ask(rows), strict=True)


def _plan_text(
    request: TranslationRequest, identifier: Identifier
) -> TranslationPlan | TextError:
    """Return the plan of a request for one text, after reading it."""
    (text,), guess = request.texts, None
    try:
        if request.tags and request.tags.is_xml:
            markup_runs.check_xml(text)
        if not request.source:
            guess = identify(identifier, text, request)
        plan = TranslationPlan(request, [guess], sys.maxsize)
        plan.read(collect(plan.job, scan(plan.job)))
        return plan
    except NotWellFormed as error:
        return TextError(f"src_text: expected well-formed XML, found: {error}")
    except Exception:  # its message may quote the text
        return TextError("This text could not be read.")


def _answer_text(
    plan: TranslationPlan, answers: dict[Row, Any]
) -> TranslatedText | TextError | TranslationPlan:
    """Return the answer for a text, or its plan after adding None for each missing answer."""
    try:
        read = plan.find(0)
        found = _translate_document(*read, plan.wanted, answers) if read else None
        return plan if read and not found else plan.finish(0, found)
    except TextError as error:
        return error


def _translate_document(
    document: Document,
    sentences: Sequence[PlannedSentence],
    wanted: TranslationRequest,
    answers: dict[Row, Any],
) -> Result | None:
    results = []
    for sentence in sentences:
        found: Result | Document | None = None
        answer = answer_here(sentence, wanted.target_language)
        answer = answer or answers.setdefault(sentence.row)
        if isinstance(answer, SentenceRefused):
            found = divide_further(sentence.segment, document.format, answer.members)
            if found is None:
                raise answer
        elif answer:
            found = compose(sentence, document.format, wanted, answer)
        if isinstance(found, Document):
            parts = list_sentences(found, sentence.source, wanted.target_language)
            found = _translate_document(found, parts, wanted, answers)
        results += [found] if found else []
    return join(document, results) if len(results) == len(sentences) else None
