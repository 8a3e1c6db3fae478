"""A task's handler as TorchServe loads it, measured without HTTP and queues."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.instruments.passes import MemoryEnds, Pass, Unsupported
from catalog import CPU, Model, checkpoint, describe_handler
from handlers.base import (
    ModelConfig,
    Outcome,
    Row,
    TaskError,
    TaskHandler,
    find_handler,
)

_NO_MEMORY = "out-of-memory"


@dataclass(frozen=True)
class TaskSubject:
    """A model of the map on one of its devices; its items are bodies of requests."""

    model: Model

    @property
    def label(self) -> tuple[str, ...]:
        return (self.model.devices[0],)

    @property
    def device(self) -> str:
        return "cuda" if self.model.is_on_gpu else CPU

    def prepare(self, cache: Path) -> Path:
        try:
            return checkpoint.prepare(self.model, cache)
        except ValueError as error:
            raise Unsupported(str(error)) from error

    def load(self, directory: Path) -> TaskRunner:
        handler = find_handler(self.model.task)()
        index = int(self.model.devices[0]) if self.model.is_on_gpu else 0
        options = describe_handler(self.model, directory)
        handler.start(ModelConfig(directory, self.device, index, options))
        return TaskRunner(handler)


@dataclass(frozen=True)
class TaskRunner:
    """A handler that is ready."""

    handler: TaskHandler[Any]

    def run(self, batches: Sequence[Sequence[bytes]]) -> Pass:
        """Times `run` alone. Raises MemoryEnds for a halved batch, else RuntimeError."""
        read = self.handler.preprocess
        items = [[read(Row(body)) for body in batch] for batch in batches]
        tokens = 0
        began = time.perf_counter()
        for batch in items:
            outcome = self.handler.infer(batch, math.inf)
            _check(outcome)
            tokens += outcome.counts.get("BabelgateTokens", 0)
        return Pass(time.perf_counter() - began, tokens)


def _check(outcome: Outcome) -> None:
    errors = [result for result in outcome.results if isinstance(result, TaskError)]
    is_halved = outcome.counts["BabelgateHalvedPacks"] > 0
    if is_halved or any(error.slug == _NO_MEMORY for error in errors):
        raise MemoryEnds("they are run in halves")
    if errors:
        raise RuntimeError(f"a row was answered {errors[0].slug}: {errors[0]}")
