"""Bulk runs with workers in this process, and a model that a test controls."""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import ray

from catalog import Model, TranslationSection
from clients.bulk import Event
from clients.tables import name_columns
from handlers.base import Outcome, Result, Row, TaskError
from ray_backend.bulk.executor import BulkWorker, RayExecutor, WorkerPool
from ray_backend.bulk.job import (
    Answerer,
    BulkJob,
    BulkTranslation,
    Chunk,
    LocalModel,
    run,
    translate_texts,
)
from ray_backend.bulk.storage import ResultFolder, Store, find
from text.langid import Identifier
from text.options import TranslationRequest

MODEL = Model("fr", "translation", ("fr",), ("cpu",), TranslationSection())
REQUEST = TranslationRequest(source="en", target="fr", texts=("",), is_list=False)


class Died(BaseException):
    """The end of a worker's process."""


class Shouting:
    """A handler that answers in capitals, refuses bad texts, and dies on the `deadly` ones."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.deadly: set[str] = set()
        self.before: Callable[[], object] = lambda: None

    def answer(self, rows: Sequence[Row]) -> Outcome:
        self.before()
        texts = [str(row.read_json()["src_text"]) for row in rows]
        self.batches.append(texts)
        if self.deadly & set(texts):
            raise Died
        return Outcome([_shout(text) for text in texts], {})


def _shout(text: str) -> Result:
    if text.startswith("bad"):
        return TaskError("text-too-long", "No.")
    return {"translated": text.upper(), "score": -0.5}


@dataclass(eq=False)
class Actor:
    """A stand-in for a Ray actor, with a worker in this process."""

    worker: BulkWorker
    is_dead: bool = False

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=partial(ActorCall, self, name))


class ActorCall:
    """A call of a worker, which runs when `ray.get` asks for its result."""

    def __init__(self, actor: Actor, name: str, *given: Any) -> None:
        self.actor, self.name = actor, name
        # Pickled as for another process, except the model, which tests inspect.
        self.given = given if name == "load" else pickle.loads(pickle.dumps(given))

    def get(self) -> Any:
        if not self.actor.is_dead:
            run = getattr(self.actor.worker, self.name, lambda: None)
            try:
                return pickle.loads(pickle.dumps(run(*self.given)))
            except Died:
                self.actor.is_dead = True
        raise ray.exceptions.RayActorError


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Ray's actors with workers in this process."""

    def make(kind: type[BulkWorker]) -> SimpleNamespace:
        made = SimpleNamespace(remote=lambda: Actor(kind()))
        return SimpleNamespace(options=lambda **_: made)

    monkeypatch.setenv("OMP_NUM_THREADS", "")  # workers set it
    monkeypatch.setattr(ray, "remote", make)
    monkeypatch.setattr(ray, "wait", lambda calls, timeout: (calls[:1], calls[1:]))
    monkeypatch.setattr(ray, "get", ActorCall.get)
    monkeypatch.setattr(ray, "kill", lambda actor: None)


class RunTotals(NamedTuple):
    """The numbers of results that existed before the run, and of reported faults."""

    there: int
    wrong: int


@dataclass
class Bench:
    """Folders for sources and results, and runs between them."""

    sources: Path
    results: Path
    handler: Shouting = field(default_factory=Shouting)
    errors: list[str] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    #: The number of texts or frames in the last run.
    count: int = 0
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
        return ResultFolder(self.results)

    def make_job(self, columns: Sequence[str] = ("text",)) -> BulkTranslation:
        return BulkTranslation(
            store=self.open_results(),
            columns=tuple(name_columns(columns, (), "fr")),
            has_quotes=True,
            request=REQUEST,
            model=MODEL,
            most_texts=self.most_texts,
        )

    def run(
        self,
        *,
        job: BulkJob | None = None,
        answerer: Answerer | None = None,
        stop_after: int | None = None,
        is_overwrite: bool = False,
        source: str | None = None,
    ) -> RunTotals:
        """Run a job, and stop it after `stop_after` chunks, if given."""
        job = job or self.make_job()
        given = LocalModel(self.handler.answer), Identifier(["en", "fr"]), REQUEST
        answerer = answerer or partial(translate_texts, *given)
        workers = RayExecutor(WorkerPool(1, 1, 0), print)

        def execute(
            _: Callable[[], Answerer], chunks: Iterator[Chunk]
        ) -> Iterator[tuple[Chunk, Sequence[Any]]]:
            if stop_after == 0:
                raise KeyboardInterrupt
            answered = workers.run(lambda: answerer, chunks)
            for number, each in enumerate(answered, start=1):
                yield each
                if number == stop_after:
                    raise KeyboardInterrupt

        def report(event: Event, share: float) -> None:
            self.count += event.size
            self.shares.append(share)

        self.count = 0
        found = find(source or self.locate_sources(), job.kind)
        totals = run(
            job,
            found,
            execute,
            report=report,
            say=lambda remarks: self.errors.extend(remarks.errors),
            is_overwrite=is_overwrite,
        )
        return RunTotals(*totals)

    def read(self, name: str) -> str:
        content = self.open_results().read(name)
        assert content is not None
        return content.decode()

    def read_records(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read(name).split("\n") if line]

    def list_results(self) -> list[str]:
        return sorted(self.open_results().list_files())


def fill(bench: Bench) -> dict[str, list[str]]:
    """Write large and small files, and return the texts of each."""
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
    """Check that the results have every id exactly once, with its translation, and no more."""
    names = [name.replace(".jsonl", ".fr.jsonl") for name in texts]
    assert bench.list_results() == sorted(names)
    for name, own in zip(names, texts.values(), strict=True):
        expected = [
            {"id": n, "text": text, "text_fr": text.upper()}
            for n, text in enumerate(own)
        ]
        assert bench.read_records(name) == expected


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "src", tmp_path / "dst")
