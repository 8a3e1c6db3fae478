"""A handler that doubles numbers, and what its tests share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus

from handlers.base import ModelConfig, Outcome, Result, Row, TaskError, TaskHandler
from handlers.engine.errors import DeviceFault
from tests.handlers.fakes import Answer


class Doubling(TaskHandler[int]):
    """Doubles numbers: refuses negative ones, cannot read 13, breaks on 666, breaks the
    device on 999, and answers too little where a row is 404."""

    def __init__(self) -> None:
        self.config: ModelConfig | None = None
        self.batches: list[list[int]] = []
        self.deadlines: list[float] = []

    def load_model(self, config: ModelConfig) -> None:
        self.config = config

    def preprocess(self, row: Row) -> int:
        number = row.read_json()
        if number == 13:
            raise KeyError("a bug, about 13")
        if not isinstance(number, int) or number < 0:
            raise TaskError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "negative", "too little", limit=0
            )
        return number + int(row.parameters.get("plus", 0))

    def infer(self, items: Sequence[int], deadline: float) -> Outcome:
        self.batches.append(list(items))
        self.deadlines.append(deadline)
        if 666 in items:
            raise RuntimeError("an error about 666")
        if 999 in items:
            raise DeviceFault("CUDA error: an illegal address\nabout 999")
        busy = TaskError(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "not now")
        doubled: list[Result] = [
            busy if item == 5 else {"doubled": 2 * item} for item in items
        ]
        given = doubled[1:] if 404 in items else doubled
        return Outcome(given, {"BabelgateTokens": sum(items)})


def results(answers: Sequence[Answer]) -> list[int]:
    """The doubled number of an answer, or its status where it has none."""
    return [answer.content.get("doubled", answer.status) for answer in answers]


def milliseconds(from_now_s: float) -> str:
    return str(int((time.monotonic() + from_now_s) * 1000))
