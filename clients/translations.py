"""Translates files of texts as one job, and writes each file as soon as it can."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, BinaryIO, ClassVar

from pydantic import TypeAdapter

from clients.bulk import (
    AnswerEvent,
    Counts,
    End,
    FileJob,
    Journal,
    Origin,
    Pipeline,
    Remarks,
    Report,
    pack,
    walk,
)
from clients.errors import InputError
from clients.files import Source, write_whole
from clients.tables import Cell, TextReply, TextTable
from clients.translator import MAX_CHARACTERS, MAX_TEXTS, Translator

#: A file's place among the files, and the cells of a request.
_Question = tuple[int, list[Cell]]
#: Rows that are named where many have an error.
_NAMED = 10


@dataclass(frozen=True)
class Note:
    """A note on a text."""

    #: Its place in the answer.
    place: int
    row: int
    text: str


@dataclass(frozen=True)
class TranslationAnswer(AnswerEvent):
    """The translations of one request, and those of the texts between that need none."""

    texts: tuple[str | None, ...]
    errors: tuple[Note, ...] = ()
    warnings: tuple[Note, ...] = ()

    @property
    def size(self) -> int:
        return len(self.texts)

    def list_results(self) -> Iterator[TextReply]:
        """One for each text."""
        errors = {note.place: note.text for note in self.errors}
        for place, text in enumerate(self.texts):
            yield TextReply(text, errors.get(place))


@dataclass
class Review:
    """A review of a file's answers: the first notes of each kind, and their number."""

    has_results: bool = False
    error_count: int = 0
    warning_count: int = 0
    errors: list[Note] = field(default_factory=list)
    warnings: list[Note] = field(default_factory=list)

    @classmethod
    def of(cls, answers: Iterable[TranslationAnswer]) -> Review:
        """Reads all answers of a file."""
        review = cls()
        for answer in answers:
            is_found = any(text is not None for text in answer.texts)
            review.has_results |= is_found or bool(answer.errors)
            review.error_count += len(answer.errors)
            review.warning_count += len(answer.warnings)
            review.errors += answer.errors[: _NAMED - len(review.errors)]
            review.warnings += answer.warnings[: _NAMED - len(review.warnings)]
        return review

    def tell(self, table: TextTable) -> Remarks:
        """A line for each of the first errors, and one for all warnings."""
        name = table.source.name
        errors = [f"{name}: {table.word} {n.row}: {n.text}" for n in self.errors]
        if self.error_count > len(self.errors):
            more = self.error_count - len(self.errors)
            errors.append(f"{name}: {more} more texts have no translation")
        warnings = [
            f"{name}: translations in doubt: {self.warning_count}, the first in "
            f"{table.word} {first.row}: {first.text}"
            for first in self.warnings[:1]
        ]
        return Remarks(errors, warnings)


@dataclass(frozen=True, kw_only=True)
class TranslationJob(FileJob):
    """Files, and who translates them."""

    #: The tables that read and write each source.
    tables: Sequence[TextTable]
    translator: Translator
    requests_in_flight: int = 16

    events: ClassVar[TypeAdapter[Any]] = TypeAdapter(TranslationAnswer | End)

    def describe(self) -> Origin:
        return {
            "url": self.translator.server.url,
            **asdict(self.translator.wanted),
            "tables": [table.describe() for table in self.tables],
        }

    def check(self) -> None:
        self.translator.check()

    def run(self, report: Report, journal: Journal) -> Counts:
        done = journal.done
        stopping = threading.Event()

        def read(number: int, _: Source) -> Iterator[tuple[_Question | End, float]]:
            table = self.tables[number]
            answered = done.answered.get(number, 0)
            cells = islice(table.list_cells(stopping), answered, None)
            for packed in pack_cells(cells, MAX_TEXTS, MAX_CHARACTERS):
                yield (number, packed), table.share
            yield End(number, table.error), 1.0

        events = walk(self.sources, done, read)
        pipeline = Pipeline(events, self._ask, self.requests_in_flight, stopping)
        return pipeline.follow(report)

    def publish(self, journal: Journal, ended: int) -> Remarks:
        def list_answers() -> Iterator[TranslationAnswer]:
            events = journal.read(ended)
            return (event for event in events if isinstance(event, TranslationAnswer))

        _, said = write_translations(
            self.tables[ended],
            list_answers,
            partial(write_whole, self.plan.find_file(ended)),
            is_broken=ended in journal.errors,
        )
        return said

    def _ask(self, question: _Question) -> TranslationAnswer:
        source, cells = question
        wanted = [cell.text or "" for cell in cells if cell.is_wanted]
        return answer_cells(source, cells, iter(self.translator.translate(wanted)))


def answer_cells(
    source: int, cells: Sequence[Cell], replies: Iterator[TextReply]
) -> TranslationAnswer:
    """The results of cells, with a reply for each that is wanted."""
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
) -> tuple[Review, Remarks]:
    """Writes a table with all its answers, which are read twice, and says what is in it. A
    broken table without any is not written, and none that has changed meanwhile."""
    review = Review.of(list_answers())
    said = review.tell(table)
    if is_broken and not review.has_results:
        return review, said
    if table.source.has_changed():
        return review, Remarks([f"{table.source.name} has changed meanwhile"])
    results = chain.from_iterable(answer.list_results() for answer in list_answers())
    with open_file() as file:
        try:
            table.write(file, results, has_errors=review.error_count > 0)
        except InputError as error:
            # The place of a fault in a column without text is not known yet.
            errors = said.errors if is_broken else [str(error), *said.errors]
            return review, replace(said, errors=errors)
    return review, said


def pack_cells(
    cells: Iterable[Cell], most_texts: int, most_characters: int
) -> Iterator[list[Cell]]:
    """The cells of each request: no more texts and, unless it has one only, no more
    characters."""

    def measure(cell: Cell) -> tuple[int, int]:
        return (1, len(cell.text or "")) if cell.is_wanted else (0, 0)

    return pack(cells, measure, most_texts, most_characters)
