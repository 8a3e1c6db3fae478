"""`python -m benchmarks bulk`: files in bulk on Ray against the bare engine, in turns."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as count_up
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import catalog
from benchmarks.driver import console, take_turns
from benchmarks.instruments import passes
from benchmarks.instruments.workload import write_document
from benchmarks.report import FigureGoal, Findings, compare_turns
from catalog import checkpoint
from clients.sources import TABLES, find_sources
from clients.tables import Column
from contract.tasks import TRANSLATION
from handlers.engine.translation.m2m100 import Sentence
from ray_backend.bulk.command import read_request
from ray_backend.bulk.executor import WorkerPool, connect
from ray_backend.bulk.job import Answerer, Callbacks, Chunk, run
from ray_backend.bulk.storage import ResultFolder
from ray_backend.bulk.texts import BulkTranslation

_SOURCE, _TARGET = "en", "fr"
_DRAWN_BYTES = 200_000
_PLAIN = re.compile("[A-Za-z' -]+")
_GOAL = FigureGoal("sentences/s", 0.95, is_least=True)


def answer(
    *, model: str, chunks: int, chunk: int, phrases: int, rounds: int
) -> Findings:
    """Sentences/s of files in bulk, from the end of the first chunk, and of the bare engine.

    Both translate the same sentences, in chunks of the same size, on all cores.
    """
    with TemporaryDirectory() as folder:
        sentences = draw(chunks * chunk, phrases)
        bench = _BulkBench(Path(folder), passes.find_model(model), sentences, chunk)
        bench.write()
        ways = {"files in bulk": bench.run_bulk, "the bare engine": bench.run_bare}
        return describe(take_turns(ways, rounds))


def describe(rates: Mapping[str, Sequence[float]]) -> Findings:
    """A row for each way, compared with the bare engine round by round."""
    return compare_turns({"": rates}, {"sentences/s": lambda rate: rate}, goal=_GOAL)


@dataclass(frozen=True)
class _BulkBench:
    """Translates the same sentences in two ways."""

    folder: Path
    model: Path
    sentences: Sequence[Sentence]
    chunk: int

    def write(self) -> None:
        """Write the sentences as a file."""
        path = self.folder / "src/sentences.jsonl"
        path.parent.mkdir()
        lines = (json.dumps({"text": s.text}) + "\n" for s in self.sentences)
        path.write_text("".join(lines), "utf-8")

    def run_bare(self, _: int) -> float:
        """Measure the engine without the first chunk, as below."""
        model = catalog.load(model=str(self.model)).route(TRANSLATION, _TARGET)
        subject = passes.EngineSubject(
            self.model, model.settings.engine, model.compute_type
        )
        translate = subject.load(checkpoint.prepare(model, checkpoint.default_cache()))
        starts = range(0, len(self.sentences), self.chunk)
        first, *rest = [self.sentences[n : n + self.chunk] for n in starts]
        translate([first])
        return sum(map(len, rest)) / translate(rest).seconds

    def run_bulk(self, _: int) -> float:
        """Measure from the end of the first chunk to that of the last."""
        shutil.rmtree(self.folder / "dst", ignore_errors=True)
        models = catalog.load(model=str(self.model))
        job = BulkTranslation(
            store=ResultFolder(self.folder / "dst"),
            columns=(Column("text", "text_fr"),),
            has_quotes=True,
            request=read_request(models, _TARGET, _SOURCE, "text"),
            model=models.route(TRANSLATION, _TARGET),
            cache=checkpoint.default_cache(),
            most_texts=self.chunk,
        )
        ends: list[float] = []
        found = find_sources([str(self.folder / "src")], TABLES)
        callbacks = Callbacks(_ignore, console.print, _ignore)
        pool = WorkerPool(1, os.cpu_count() or 1, 0)
        with connect(pool, console.print) as executor:

            def execute(
                load: Callable[[], Answerer], chunks: Iterator[Chunk]
            ) -> Iterator[tuple[Chunk, Sequence[Any]]]:
                for answered in executor.run(load, chunks):
                    ends.append(time.perf_counter())
                    yield answered

            run(job, found, execute, callbacks)
        return (len(self.sentences) - self.chunk) / (ends[-1] - ends[0])


def draw(count: int, phrases: int) -> list[Sentence]:
    """Draw different texts of some phrases each, which a gateway would not split: none has
    marks or digits inside."""
    found: dict[str, None] = {}
    seeds = count_up()
    while len(found) < count:
        lines = write_document(_SOURCE, _DRAWN_BYTES, seed=next(seeds)).splitlines()
        plain = [line.rstrip(".!?") for line in lines]
        plain = [line for line in plain if _PLAIN.fullmatch(line)]
        grouped = zip(*[iter(plain)] * phrases, strict=False)
        found |= dict.fromkeys(map(", ".join, grouped))
    return [Sentence(text, _SOURCE, _TARGET) for text in islice(found, count)]


def _ignore(*_: object) -> None:
    """Show neither progress nor doubts of a translation."""
