"""Bulk work without Ray: the same readers and workers, in this process, with a model that a
test tells what to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from text.options import TranslationRequest

from catalog import Model, TranslationSection
from clients.sources import Source
from clients.tables.table import name_columns
from handlers.base import Outcome, Result, Row, TaskError, TaskHandler
from ray_backend.bulk import running
from ray_backend.bulk.folder import Folder
from ray_backend.bulk.manifest import NAME
from ray_backend.bulk.pieces import CHUNKS, REPORTS, Finished, Report, Worker
from ray_backend.bulk.running import Listeners
from ray_backend.bulk.running import Outcome as Ended
from ray_backend.bulk.sources import find
from ray_backend.bulk.storage import Store
from ray_backend.bulk.texts import TextTask, TextWorker
from ray_backend.bulk.translation import BatchTranslator
from ray_backend.bulk.workspace import Workspace
from text.langid import Identifier

MODEL = Model("fr", "translation", ("fr",), ("cpu",), TranslationSection())
WANTED = TranslationRequest(source="en", target="fr", texts=("",), is_list=False)


class Died(BaseException):
    """The end of a worker's process."""


class Shouting(TaskHandler[str]):
    """Answers in capitals, refuses what is bad, and dies where it is told to."""

    def __init__(self, deadly: Iterable[str] = ()) -> None:
        self.batches: list[list[str]] = []
        self.deadly = set(deadly)
        self.before: Callable[[], object] = lambda: None

    def load_model(self, config: Any) -> None:
        pass

    def preprocess(self, row: Row) -> str:
        raise NotImplementedError

    def infer(self, items: Sequence[str], deadline: float) -> Outcome:
        raise NotImplementedError

    def answer(self, rows: Sequence[Row]) -> Outcome:
        self.before()
        texts = [str(row.read_json()["src_text"]) for row in rows]
        self.batches.append(texts)
        if self.deadly & set(texts):
            raise Died
        return Outcome([_shout(text) for text in texts], {})


def _shout(text: str) -> Result:
    if text.startswith("bad"):
        return TaskError(HTTPStatus.UNPROCESSABLE_ENTITY, "bad", "No.")
    return {"translated": text.upper(), "score": -0.5}


class Stop(Exception):
    """Ends a run as a kill would."""


@dataclass
class Here:
    """Machines that are this process. A worker that dies is replaced, as Ray does."""

    worker: Worker
    #: Reports until the run is stopped.
    stop_after: int | None = None
    reports: list[Report] = field(default_factory=list)
    deaths: int = 0

    def run(self, task: Any, groups: Sequence[tuple[Source, ...]]) -> Iterator[Report]:
        for chunk in chain.from_iterable(map(task.read, groups)):
            for report in self._work(CHUNKS.dump_json(chunk)):
                if len(self.reports) == self.stop_after:
                    raise Stop
                self.reports.append(report)
                yield report

    def assemble(self, task: Any, source: Source, parts: int) -> Future[Finished]:
        future: Future[Finished] = Future()
        future.set_result(task.assemble(source, parts))
        return future

    def _work(self, chunk: bytes) -> tuple[Report, ...]:
        while True:
            try:
                done = tuple(self.worker(CHUNKS.validate_json(chunk)))
            except Died:
                self.deaths += 1
            else:
                return REPORTS.validate_json(REPORTS.dump_json(done))


@dataclass
class Bench:
    """Folders with sources and results, and runs between them."""

    sources: Path
    results: Path
    handler: Shouting = field(default_factory=Shouting)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    most_texts: int = 4

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def write_records(self, name: str, texts: Iterable[str]) -> list[dict[str, Any]]:
        records = [{"id": n, "text": text} for n, text in enumerate(texts)]
        lines = (json.dumps(record, ensure_ascii=False) for record in records)
        self.write(name, "".join(f"{line}\n" for line in lines))
        return records

    def locate_sources(self) -> str:
        return str(self.sources)

    def open_results(self) -> Store:
        return Folder(self.results)

    def make_task(self, columns: Sequence[str] = ("text",)) -> TextTask:
        return TextTask(
            workspace=Workspace(self.open_results()),
            columns=tuple(name_columns(columns, (), "fr")),
            has_quotes=True,
            wanted=WANTED,
            model=MODEL,
            cache=self.results / "cache",
            most_texts=self.most_texts,
        )

    def make_worker(self, task: TextTask) -> TextWorker:
        identifier = Identifier(["en", "fr"])
        return TextWorker(task, BatchTranslator(self.handler, identifier, task.wanted))

    def run(
        self,
        *,
        stop_after: int | None = None,
        is_overwrite: bool = False,
        task: TextTask | None = None,
        source: str | None = None,
    ) -> tuple[Ended, Here]:
        task = task or self.make_task()
        here = Here(self.make_worker(task), stop_after)
        listeners = Listeners(
            lambda _, share: self.shares.append(share),
            self.errors.append,
            self.warnings.append,
        )
        found = find(source or self.locate_sources(), task.sources)
        ended = running.run(task, found, here, listeners, is_overwrite=is_overwrite)
        return ended, here

    def read(self, name: str) -> str:
        return (self.results / name).read_text("utf-8")

    def read_records(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read(name).split("\n") if line]

    def list_results(self) -> list[str]:
        return sorted(
            path.relative_to(self.results).as_posix()
            for path in self.results.rglob("*")
            if path.is_file()
        )


def fill(bench: Bench) -> dict[str, list[str]]:
    """Large and small files, the texts of each."""
    texts = {
        "a.jsonl": [f"a {n}" for n in range(11)],
        "more/b.jsonl": ["b"],
        "more/c.jsonl": [],
        "more/d.jsonl": [f"d {n}" for n in range(9)],
    }
    for name, own in texts.items():
        bench.write_records(name, own)
    return texts


def check(bench: Bench, texts: dict[str, list[str]]) -> None:
    """Every id is there exactly once, with its own translation, and nothing else is."""
    names = [name.replace(".jsonl", ".fr.jsonl") for name in texts]
    assert bench.list_results() == sorted([*names, NAME])
    for name, own in zip(names, texts.values(), strict=True):
        expected = [
            {"id": n, "text": text, "text_fr": text.upper()}
            for n, text in enumerate(own)
        ]
        assert bench.read_records(name) == expected
    outputs = [record["output"] for record in bench.read_records(NAME)]
    assert sorted(outputs) == sorted(names)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "src", tmp_path / "dst")
