"""Translates texts through a server, many per request; a refused text gets its own error.
Several files of texts are one job, and each output is written as soon as it is complete.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, BinaryIO, ClassVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from clients import bulk
from clients.errors import InputError, ServerError
from clients.files import write_whole
from clients.server import ApiClient, ApiRequest
from clients.tables import Cell, TextReply, TextTable
from contract.tasks import PATHS, TRANSLATION

#: The most texts of a request and, unless it has a single text, the most characters.
MAX_TEXTS, MAX_CHARACTERS = 32, 8000
#: A longer text is cut at the end of a line, else of a sentence.
LONGEST_PIECE = 32_000
#: The statuses with which the server refuses a text.
_REFUSED = frozenset({400, 413, 422})
#: The statuses that either a text or a fault of the server may cause.
_DOUBTFUL = frozenset({500, 503, 504})
#: The statuses after which a request with several texts is divided without a retry.
_DIVIDED = frozenset({500, 504})
#: The 5xx answers after which a part of a divided request has failed. A worker that crashed on
#: a text has restarted before the last attempt.
_MOST_FAULTS = 4

_PLACE = re.compile(r"(?s)src_text\[(\d{1,4})\]: (.*)")
_ENDS = [
    re.compile(r"[\r\n]+"),
    # One mark suffices: `+` would take hours for a long line of dots.
    re.compile(r"[.!?…।؟][\"'»”’)\]]*\s+|[。！？][」』”’）]*"),
    re.compile(r"\s+"),
]


@dataclass(frozen=True)
class TranslationOptions:
    """The target language and the options of a translation."""

    target: str
    #: None: the server identifies the language of each text. `de,fr`: it is one of these.
    source: str | None = None
    format: str = "text"
    glossary: str | None = None

    def write_body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {"src_text": texts, "tgt_lang": self.target}
        body |= {"format": self.format}
        match (self.source or "").split(","):
            case [""]:
                pass
            case [one]:
                body["src_lang"] = one
            case several:
                body["languages"] = several
        body |= {"glossary": self.glossary} if self.glossary else {}
        try:
            return json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # half a surrogate pair, which needs an escape
            return json.dumps(body).encode()


class _Answer(BaseModel, strict=True):
    translated: list[str]
    warnings: list[str] = []


@dataclass(frozen=True)
class Translator:
    """A translator of texts, safe to share among threads."""

    server: ApiClient
    wanted: TranslationOptions

    def check(self) -> None:
        """Raise ServerError if the server does not support the options."""
        self._ask(self._make_request([""]), 1)

    def translate(self, texts: Sequence[str]) -> list[TextReply]:
        """Return a reply for each text. Raises ServerError for faults that no text causes."""
        pieces = [self._cut(text) for text in texts]
        sent = chain.from_iterable(pieces)
        groups = bulk.pack(sent, lambda t: (1, len(t)), MAX_TEXTS, MAX_CHARACTERS)
        replies = chain.from_iterable(map(self._try, groups))
        return [_join([next(replies) for _ in each]) for each in pieces]

    def follow(self, text: str, write: Callable[[str], object]) -> list[str]:
        """Write a translation as it is produced, and return warnings. Raises ServerError."""
        warnings: list[str] = []
        for piece in self._cut(text):
            shown = ""

            def show(beginning: str) -> None:
                nonlocal shown
                if not beginning.startswith(shown[: len(beginning)]):
                    raise ServerError("The server began a different translation.")
                write(beginning[len(shown) :])
                shown = max(shown, beginning, key=len)

            def tell(_: str, event: Any) -> None:
                match event:
                    case {"translated": str(beginning)}:
                        show(beginning)

            request = self._make_request([piece])
            answer = self._check(self.server.follow(request, tell), 1)
            show(answer.translated[0])
            warnings += answer.warnings
        return warnings

    def _cut(self, text: str) -> list[str]:
        # A piece of HTML would lack the tags around it.
        is_plain = self.wanted.format == "text"
        return cut(text, LONGEST_PIECE if is_plain else sys.maxsize)

    def _try(
        self, texts: Sequence[str], most_faults: int | None = None
    ) -> list[TextReply]:
        final = _DIVIDED if len(texts) > 1 else frozenset()
        request = self._make_request(texts)
        request = replace(request, final=final, most_faults=most_faults)
        try:
            return self._ask(request, len(texts))
        except ServerError as error:
            is_refused = error.status in _REFUSED | final
            if not (is_refused or (error.status in _DOUBTFUL and self._is_ready())):
                raise
            if len(texts) == 1:
                reason = error.reason.replace("src_text[0]: ", "")
                return [TextReply(None, error=reason)]
        middle = len(texts) // 2
        return [
            *self._try(texts[:middle], _MOST_FAULTS),
            *self._try(texts[middle:], _MOST_FAULTS),
        ]

    def _is_ready(self) -> bool:
        try:
            self.server.ask(ApiRequest("GET", "/readyz"))
        except ServerError:
            return False
        return True

    def _make_request(self, texts: Sequence[str]) -> ApiRequest:
        body = self.wanted.write_body(texts)
        return ApiRequest("POST", PATHS[TRANSLATION], [body], "application/json")

    def _check(self, content: Any, texts: int) -> _Answer:
        url = f"{self.server.url}{PATHS[TRANSLATION]}"
        try:
            answer = _Answer.model_validate(content)
        except ValidationError as error:
            raise ServerError(f"{url}: the answer has no translations") from error
        if len(answer.translated) != texts:
            raise ServerError(f"{url}: expected {texts} translations")
        return answer

    def _ask(self, request: ApiRequest, texts: int) -> list[TextReply]:
        answer = self._check(self.server.ask(request), texts)
        replies = [TextReply(text) for text in answer.translated]
        for warning in answer.warnings:
            found = _PLACE.fullmatch(warning)
            if found and (place := int(found[1])) < texts:
                replies[place] = replace(replies[place], warning=found[2])
        return replies


def cut(text: str, longest: int) -> list[str]:
    """Cut a text into pieces of similar length, none longer than `longest`."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > longest:
        left = len(text) - start
        size = -(-left // -(-left // longest))
        end = _find_end(text, start, start + size)
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _find_end(text: str, start: int, stop: int) -> int:
    """Return the end of the last line, else sentence, else word before `stop`; else `stop`."""
    for pattern in _ENDS:
        *_, last = (0, *(found.end() for found in pattern.finditer(text, start, stop)))
        if last:
            return last
    return stop


def _join(pieces: Sequence[TextReply]) -> TextReply:
    """Return the reply for a text that was cut; the error of any piece is the text's."""
    if len(pieces) == 1:
        return pieces[0]
    errors = [piece.error for piece in pieces if piece.error]
    warnings = [piece.warning for piece in pieces if piece.warning]
    if errors:
        return TextReply(None, error=errors[0])
    text = "".join(piece.text or "" for piece in pieces)
    return TextReply(text, warning=warnings[0] if warnings else None)


#: The index of a file, and the cells of a request.
_Question = tuple[int, list[Cell]]
#: The most rows named in errors.
_NAMED = 10


@dataclass(frozen=True)
class Note:
    """A note on a text."""

    #: The index of the text in the answer.
    place: int
    row: int
    text: str


@dataclass(frozen=True)
class TranslationAnswer(bulk.Event):
    """The results of one request, including the cells that need no translation."""

    texts: tuple[str | None, ...]
    errors: tuple[Note, ...] = ()
    warnings: tuple[Note, ...] = ()

    @property
    def size(self) -> int:
        return len(self.texts)

    def list_results(self) -> Iterator[TextReply]:
        """Yield a reply for each text."""
        errors = {note.place: note.text for note in self.errors}
        for place, text in enumerate(self.texts):
            yield TextReply(text, errors.get(place))


@dataclass(frozen=True, kw_only=True)
class TranslationJob(bulk.FileJob):
    """A job that translates files of texts."""

    #: The table that reads and writes each source.
    tables: Sequence[TextTable]
    translator: Translator
    requests_in_flight: int = 16

    unit: ClassVar[str] = "texts"
    events: ClassVar[TypeAdapter[Any]] = TypeAdapter(TranslationAnswer | bulk.End)

    def describe(self) -> bulk.Origin:
        return {
            "url": self.translator.server.url,
            **asdict(self.translator.wanted),
            "tables": [table.describe() for table in self.tables],
        }

    def check(self) -> None:
        self.translator.check()

    def run(self, report: bulk.Report, journal: bulk.Journal) -> None:
        done = journal.done

        def read(number: int) -> Iterator[tuple[_Question | bulk.End, float]]:
            table = self.tables[number]
            cells = islice(table.list_cells(), done.answered[number], None)
            for packed in pack_cells(cells, MAX_TEXTS, MAX_CHARACTERS):
                yield (number, packed), table.share
            yield bulk.End(number, table.error), 1.0

        bulk.answer_in_order(
            self.sources,
            done,
            report,
            read=read,
            ask=self._ask_texts,
            in_flight=self.requests_in_flight,
        )

    def publish(self, journal: bulk.Journal, end: bulk.End) -> bulk.Remarks:
        def list_answers() -> Iterator[TranslationAnswer]:
            events = journal.read(end.source)
            return (event for event in events if isinstance(event, TranslationAnswer))

        return write_translations(
            self.tables[end.source],
            list_answers,
            partial(write_whole, self.plan.files[end.source]),
            is_broken=bool(end.error),
        )

    def _ask_texts(self, question: _Question) -> TranslationAnswer:
        source, cells = question
        wanted = [cell.text or "" for cell in cells if cell.is_wanted]
        return answer_cells(source, cells, iter(self.translator.translate(wanted)))


def answer_cells(
    source: int, cells: Sequence[Cell], replies: Iterator[TextReply]
) -> TranslationAnswer:
    """Return the results of cells, given a reply for each wanted one."""
    texts: list[str | None] = []
    errors: list[Note] = []
    warnings: list[Note] = []
    for place, cell in enumerate(cells):
        reply = next(replies) if cell.is_wanted else TextReply(cell.text, cell.error)
        texts.append(reply.text)
        if reply.error:
            errors.append(Note(place, cell.row, reply.error))
        if reply.warning:
            warnings.append(Note(place, cell.row, reply.warning))
    return TranslationAnswer(source, tuple(texts), tuple(errors), tuple(warnings))


def write_translations(
    table: TextTable,
    list_answers: Callable[[], Iterator[TranslationAnswer]],
    open_file: Callable[[], AbstractContextManager[BinaryIO]],
    *,
    is_broken: bool,
) -> bulk.Remarks:
    """Write a table with all its answers, which are read twice. A broken table without results
    is not written, nor is one that has changed meanwhile."""
    has_results, said = _review(table, list_answers())
    if is_broken and not has_results:
        return said
    if table.source.has_changed():
        return bulk.Remarks([f"{table.source.name} has changed meanwhile"])
    results = chain.from_iterable(answer.list_results() for answer in list_answers())
    with open_file() as file:
        try:
            table.write(file, results, has_errors=bool(said.errors))
        except InputError as error:
            # Only writing reads the columns without texts and finds their faults.
            errors = said.errors if is_broken else [str(error), *said.errors]
            return replace(said, errors=errors)
    return said


def _review(
    table: TextTable, answers: Iterable[TranslationAnswer]
) -> tuple[bool, bulk.Remarks]:
    """Return whether a file has results, and a line for each of the first errors, one for the
    other errors and one for all warnings."""
    name, has_results, doubt = table.source.name, False, ""
    errors, counts = list[str](), Counter[str]()
    for answer in answers:
        is_found = any(text is not None for text in answer.texts)
        has_results |= is_found or bool(answer.errors)
        counts.update(errors=len(answer.errors), warnings=len(answer.warnings))
        for note in answer.errors[: _NAMED - len(errors)]:
            errors.append(f"{name}: {table.word} {note.row}: {note.text}")
        for note in answer.warnings[:1]:
            doubt = doubt or f"{table.word} {note.row}: {note.text}"
    count, doubts = counts["errors"], counts["warnings"]
    if count > len(errors):
        errors.append(f"{name}: {count - len(errors)} more texts have no translation")
    said = f"{name}: doubtful translations: {doubts}, the first in {doubt}"
    return has_results, bulk.Remarks(errors, [said] if doubt else [])


def pack_cells(
    cells: Iterable[Cell], most_texts: int, most_characters: int
) -> Iterator[list[Cell]]:
    """Yield the cells of each request, within these limits; a single text may be longer."""

    def measure(cell: Cell) -> tuple[int, int]:
        return (1, len(cell.text or "")) if cell.is_wanted else (0, 0)

    return bulk.pack(cells, measure, most_texts, most_characters)
