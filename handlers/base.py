"""Implements TorchServe's handler contract once: parses a batch of raw rows, answers
each with its own status whatever happens to the others, and reports the batch's
metrics.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

import contract.rows
from contract.faults import list_faults
from contract.problems import CONTENT_TYPE, title, write_problem
from handlers.engine.errors import DeviceFault
from handlers.wanted import Wanted

log = logging.getLogger(__name__)

#: Batches whose times say what a row needs at least.
_RECENT_BATCHES = 16
#: A row that has waited longer was sent by somebody with another clock.
_LONGEST_WAIT_MS = 3_600_000
#: What TorchServe calls a request's body, and that of a form.
_BODY = ("body", "data")


Schema = TypeVar("Schema", bound=BaseModel)


class TaskError(Exception):
    """Why one row has no result; the row's client gets it as a problem document, in which
    `members` are further fields."""

    def __init__(
        self, status: HTTPStatus, slug: str, detail: str, **members: int
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.members = members

    def to_document(self) -> dict[str, Any]:
        """What the row's client gets."""
        return write_problem(self.slug, self.status, self.detail, **self.members)


@dataclass(frozen=True)
class Row:
    """What one request has sent: its body, and what it asks for beside that."""

    #: Bytes, unless TorchServe has decoded it.
    body: Any
    parameters: Mapping[str, str] = field(default_factory=dict)

    def read_json(self) -> Any:
        """The body's content. Raises TaskError where it is not JSON."""
        if not isinstance(self.body, bytes | bytearray | str):
            return self.body
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise TaskError(
                HTTPStatus.BAD_REQUEST, "malformed-json", "The body is not JSON."
            ) from error

    def read(self, schema: type[Schema]) -> Schema:
        """The body as a value. Raises TaskError where it is not one of this schema."""
        content = self.read_json()
        if not isinstance(content, dict):
            raise invalid("expected a JSON object")
        return _validate(schema, content, is_strict=True)

    def read_parameters(self, schema: type[Schema]) -> Schema:
        """The parameters as a value. Raises TaskError where they are not of this schema."""
        return _validate(schema, self.parameters, is_strict=False)


@dataclass(frozen=True)
class ModelConfig:
    """What the archive's `model-config.yaml` says under `handler`, and the device."""

    directory: Path
    device: str
    device_index: int
    options: Mapping[str, Any]


class Metrics(Protocol):
    """The part of TorchServe's metrics that is used here."""

    def add_counter(self, name: str, value: int, idx: int) -> None: ...


class Context(Protocol):
    """The part of `ts.context.Context` that is used here."""

    model_yaml_config: dict[str, Any]
    system_properties: dict[str, Any]
    metrics: Metrics

    def get_request_header(self, idx: int, key: str) -> str | None: ...
    def set_response_status(self, code: int, phrase: str, idx: int) -> None: ...
    def set_response_content_type(self, request_id: int, value: str) -> None: ...


Item = TypeVar("Item")


class TaskHandler(ABC, Generic[Item]):
    """A task: `setup` loads the model, `parse` reads a row, `run` answers a batch.

    TorchServe calls `initialize` once and `handle` for every batch; without TorchServe these
    are `load` and `answer`. A module that TorchServe loads must define exactly one class.
    """

    #: The batch's metrics by the names that `torchserve_backend/metrics.yaml` declares;
    #: `run` adds the task's own.
    statistics: Counter[str]
    #: When the last of the batch's rows is too late, in seconds of the monotonic clock;
    #: `run` need not go on after it.
    latest: float

    @abstractmethod
    def setup(self, config: ModelConfig) -> None:
        """Loads and warms up the model."""

    @abstractmethod
    def parse(self, row: Row) -> Item:
        """One row as a value. Raises TaskError where it is malformed."""

    @abstractmethod
    def run(self, items: Sequence[Item]) -> list[dict[str, Any] | TaskError]:
        """One result or error per item, in order."""

    def initialize(self, context: Context) -> None:
        """Called by TorchServe in a new worker; READY when it returns."""
        _log_to_stderr()
        options = context.model_yaml_config["handler"]
        gpu = context.system_properties.get("gpu_id")
        _check_device(options["devices"], gpu)
        self.load(
            ModelConfig(
                directory=Path(options["model_path"]),
                device="cpu" if gpu is None else "cuda",
                device_index=gpu or 0,
                options=options,
            )
        )

    def load(self, config: ModelConfig) -> None:
        """Makes the handler ready for `answer`."""
        self.statistics = Counter()
        self.latest = math.inf
        self._wanted = Wanted()
        self._recent_s: deque[float] = deque(maxlen=_RECENT_BATCHES)
        self.setup(config)

    def handle(self, rows: list[dict[str, Any]], context: Context) -> list[bytes]:
        """Called by TorchServe with a batch; returns one JSON document per row."""
        self.statistics = Counter(_count_rows(len(rows), context))
        deadlines = [_read_deadline(context, i) for i in range(len(rows))]
        results: list[Any] = [
            self._drop(
                deadlines[i], context.get_request_header(i, contract.rows.NUMBER)
            )
            for i in range(len(rows))
        ]
        waiting = [i for i, error in enumerate(results) if error is None]
        self.latest = max((deadlines[i] for i in waiting), default=math.inf)
        answers = self.answer([_read_row(rows[i], context, i) for i in waiting])
        for i, answer in zip(waiting, answers, strict=True):
            results[i] = answer
        _emit(self.statistics, context)
        return [_encode(result, context, i) for i, result in enumerate(results)]

    def answer(self, rows: Sequence[Row]) -> list[dict[str, Any] | TaskError]:
        """One result or error per row, in order; whatever is wrong with a row costs that
        row alone."""
        results: list[Any] = [self._parse(row) for row in rows]
        good = [
            i for i, result in enumerate(results) if not isinstance(result, TaskError)
        ]
        if good:
            began = time.perf_counter()
            answers = self._run([results[i] for i in good])
            compute_s = time.perf_counter() - began
            self.statistics["BabelgateComputeMs"] = round(compute_s * 1000)
            self._recent_s.append(compute_s)
            for i, answer in zip(good, answers, strict=True):
                results[i] = answer
        return results

    def _drop(self, deadline: float, number: str | None) -> TaskError | None:
        """Why a row is not computed: nobody waits for it, or nobody will when even the
        shortest of the last batches would be done."""
        is_wanted = self._wanted.has(number)
        needed_s = min(self._recent_s, default=0.0)
        if is_wanted and time.monotonic() + needed_s <= deadline:
            return None
        self.statistics["BabelgateDroppedRows"] += 1
        if not is_wanted:
            return TaskError(HTTPStatus.GONE, "not-wanted", "Nobody waits for the row.")
        return TaskError(
            HTTPStatus.GATEWAY_TIMEOUT,
            "deadline",
            "The deadline passed while the row was queued, or comes too soon.",
        )

    def _parse(self, row: Row) -> Item | TaskError:
        """An error that left `answer` would fail the whole batch."""
        try:
            return self.parse(row)
        except TaskError as error:
            return error
        except Exception as error:
            log.error("reading a row failed with %s", type(error).__name__)
            return _internal("This row could not be read.")

    def _run(self, items: list[Item]) -> list[dict[str, Any] | TaskError]:
        """Runs a batch; where it breaks as a whole, its halves run, and so on, so that only
        the row that breaks it is lost. The error's text may quote the user's and is not
        logged."""
        try:
            answers = self.run(items)
            if len(answers) != len(items):
                raise RuntimeError("not one answer per row")
            return answers
        except DeviceFault as error:
            first_line = str(error).partition("\n")[0]
            log.critical("the device failed, this worker ends: %s", first_line)
            _end_worker()
        except Exception as error:
            log.error(
                "a batch of %d rows failed with %s", len(items), type(error).__name__
            )
        half = len(items) // 2
        if half:
            return self._run(items[:half]) + self._run(items[half:])
        return [_internal("The model failed on this row.")]


def find_handler(task: str) -> type[TaskHandler[Any]]:
    """The one class that a task's module defines, as TorchServe finds it."""
    module = importlib.import_module(f"handlers.{task}")
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    )
    return found


def invalid(detail: str) -> TaskError:
    """For a row that asks for something else than the task can do."""
    return TaskError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail)


def _validate(
    schema: type[Schema], content: Mapping[str, Any], *, is_strict: bool
) -> Schema:
    try:
        return schema.model_validate(content, strict=is_strict)
    except ValidationError as error:
        faults = list_faults(
            error.errors(include_url=False), schema.model_json_schema()
        )
        said = "; ".join(f"{field}: {fault}" for field, fault in faults.items())
        raise invalid(said) from error


def _internal(detail: str) -> TaskError:
    return TaskError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)


def _log_to_stderr() -> None:
    """TorchServe takes what a worker writes to stdout, where it sets the log up, for mere
    information, and drops it."""
    if logging.lastResort:
        logging.getLogger("handlers").addHandler(logging.lastResort)


def _end_worker() -> NoReturn:
    """TorchServe starts another worker only when this process is gone."""
    os._exit(1)


def _read_ms(header: str | None) -> float | None:
    """A header that is no number says nothing."""
    try:
        value = float(header or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_deadline(context: Context, index: int) -> float:
    """In seconds of the monotonic clock."""
    deadline_ms = _read_ms(context.get_request_header(index, contract.rows.DEADLINE))
    return math.inf if deadline_ms is None else deadline_ms / 1000


def _count_rows(rows: int, context: Context) -> dict[str, int]:
    """The metrics of a batch that are known when it comes."""
    now = time.monotonic() * 1000
    sent = [
        _read_ms(context.get_request_header(i, contract.rows.SENT)) for i in range(rows)
    ]
    waits = [now - time_ms for time_ms in sent if time_ms is not None]
    return {
        "BabelgateBatches": 1,
        "BabelgateRows": rows,
        "BabelgateDroppedRows": 0,
        "BabelgateQueueMs": round(sum(w for w in waits if 0 < w < _LONGEST_WAIT_MS)),
        "BabelgateComputeMs": 0,
    }


def _emit(statistics: Mapping[str, int], context: Context) -> None:
    """Each metric is a line on stdout, so they are those of a batch, and under the id of
    its first row instead of all 64. None of them is worth the batch."""
    try:
        for name, value in statistics.items():
            context.metrics.add_counter(name, value, 0)
    except Exception as error:
        log.error("counting a batch failed with %s", type(error).__name__)


def _check_device(devices: Sequence[str], gpu: int | None) -> None:
    """TorchServe falls back to the CPU, or to another GPU, in silence."""
    actual = "cpu" if gpu is None else str(gpu)
    if actual not in devices:
        raise RuntimeError(
            f"the map puts this model on {', '.join(devices)}, TorchServe on {actual}"
        )


def _read_row(row: Mapping[str, Any], context: Context, index: int) -> Row:
    found = (row[key] for key in _BODY if row.get(key) is not None)
    parameters = context.get_request_header(index, contract.rows.PARAMETERS) or ""
    return Row(next(found, b""), dict(parse_qsl(parameters)))


def _encode(result: dict[str, Any] | TaskError, context: Context, index: int) -> bytes:
    content_type = "application/json; charset=utf-8"
    if isinstance(result, TaskError):
        status = int(result.status)
        context.set_response_status(status, title(status), index)
        content_type = CONTENT_TYPE
        result = result.to_document()
    context.set_response_content_type(index, content_type)
    return json.dumps(result, ensure_ascii=False).encode()
