"""Asks in bounded memory and answers in order: a thread reads while others send."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

from clients.journal import AnswerEvent, Done, End, Report
from clients.sources import Source

Item = TypeVar("Item")
Question = TypeVar("Question")
Answered = TypeVar("Answered", bound=AnswerEvent)


@dataclass(frozen=True)
class Counts:
    """The counts of a pipeline."""

    #: Frames or texts.
    answered: int
    requests: int
    seconds: float


def walk(
    sources: Sequence[Source],
    done: Done,
    read: Callable[[int, Source], Iterator[tuple[Item, float]]],
) -> Iterator[tuple[Item, float]]:
    """Yield the items that `read` finds in each file that is not done, with the share of
    all files' bytes before it instead of the share of its own file."""
    total = sum(source.size_bytes for source in sources) or 1
    behind = 0
    for number, source in enumerate(sources):
        if number not in done.ended:
            for item, part in read(number, source):
                yield item, (behind + part * source.size_bytes) / total
        behind += source.size_bytes


class Pipeline(Generic[Question, Answered]):
    """A reader that stays ahead by as many questions as there are slots, and the senders."""

    def __init__(
        self,
        events: Iterator[tuple[Question | End, float]],
        ask: Callable[[Question], Answered],
        in_flight: int,
        stopping: threading.Event,
    ) -> None:
        #: The seconds that the reader has worked, without its waiting.
        self.busy_s = 0.0
        self._events = events
        self._ask = ask
        # Half of the slots are for those that wait for a slow one before them or for a
        # sender.
        self._slots = threading.Semaphore(2 * in_flight)
        self._stopping = stopping
        self._ordered: SimpleQueue[
            tuple[Future[Answered] | End, float] | Exception | None
        ] = SimpleQueue()
        self._jobs: SimpleQueue[tuple[Question, Future[Answered]] | None] = (
            SimpleQueue()
        )
        # Daemons: a run that stops does not wait for answers.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._senders = [
            threading.Thread(target=self._send, daemon=True) for _ in range(in_flight)
        ]

    def follow(self, report: Report) -> Counts:
        """Reports all answers and ends. Raises what asking and `report` raise."""
        began = time.perf_counter()
        answered = requests = 0
        with closing(self.run()) as events:
            for event, share in events:
                if isinstance(event, AnswerEvent):
                    answered += event.size
                    requests += 1
                report(event, share)
        return Counts(answered, requests, time.perf_counter() - began)

    def run(self) -> Generator[tuple[Answered | End, float]]:
        """Answers and ends in order, each with its share."""
        for thread in (self._reader, *self._senders):
            thread.start()
        try:
            while (item := self._ordered.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                event, share = item
                if isinstance(event, End):
                    yield event, share
                    continue
                answer = event.result()
                self._slots.release()
                yield answer, share
        finally:
            self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        self._slots.release()
        self._reader.join()
        for _ in self._senders:
            self._jobs.put(None)

    def _read(self) -> None:
        try:
            while (item := self._next()) is not None and not self._stopping.is_set():
                event, share = item
                if isinstance(event, End):
                    self._ordered.put((event, share))
                    continue
                self._slots.acquire()
                future: Future[Answered] = Future()
                self._jobs.put((event, future))
                self._ordered.put((future, share))
        except (
            Exception
        ) as error:  # whatever it is, it is raised where it is waited for
            self._ordered.put(error)
        self._ordered.put(None)

    def _next(self) -> tuple[Question | End, float] | None:
        began = time.perf_counter()
        item = next(self._events, None)
        self.busy_s += time.perf_counter() - began
        return item

    def _send(self) -> None:
        while (job := self._jobs.get()) is not None:
            question, future = job
            if self._stopping.is_set():
                continue
            try:
                answer = self._ask(question)
            except Exception as error:  # as above
                future.set_exception(error)
            else:
                future.set_result(answer)
            del job, question, future  # a frame's pixels
