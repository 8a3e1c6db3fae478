"""The base of all handlers: implements TorchServe's interface once, for batches of raw rows."""

import ctypes
import gc
import json
import logging
import math
import mmap
import os
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

import contract.rows
from contract import variables
from contract.problems import CONTENT_TYPE, STATUSES, TITLES, write_problem
from contract.tasks import find_class
from contract.validation import list_faults
from handlers.engine.directories import digest_files
from handlers.engine.errors import DeviceFault, run_in_halves

log = logging.getLogger(__name__)

_FOLDER = Path(__file__).parent
_METRICS = _FOLDER.parent / "torchserve_backend" / "metrics.yaml"
#: The number of recent batches; the shortest duration among them is the least that a row needs.
_RECENT_BATCHES = 16
#: The time assumed for a reload until one is measured, and the least remaining time reported.
_LOAD_S, _LEAST_S = 1.0, 0.1
#: The delay before counts are written, so that one write covers several batches.
COUNT_S = 0.25
#: A longer wait means that the sender has a different clock.
_LONGEST_WAIT_S = 3600
#: TorchServe's keys for the body of a request and for that of a form.
_BODY = ("body", "data")
_JSON = "application/json; charset=utf-8"
#: Part of each model's digest, because changed code may change answers.
_CODE = sha256(b"".join(p.read_bytes() for p in sorted(_FOLDER.rglob("*.py"))))
_DIGEST_DIGITS = 16
#: The options that may change answers.
_SAID = ("engine", "compute_type", "max_tokens")
#: In the stack's run directory; `gateway/admission/shared_counters.py` writes it.
ROWS_FILE = Path("admission", "rows")


Schema = TypeVar("Schema", bound=BaseModel)


class LoadError(RuntimeError):
    """A model cannot be loaded; the message gives the reason."""


class TaskError(Exception):
    """The error of one row, sent as a problem document; `members` are its additional fields."""

    def __init__(self, slug: str, detail: str, **members: int) -> None:
        super().__init__(detail)
        self.status: int = STATUSES[slug]
        self.slug = slug
        self.detail = detail
        self.members = members

    def to_document(self) -> dict[str, Any]:
        return write_problem(self.slug, self.status, self.detail, **self.members)


@dataclass(frozen=True)
class Row:
    """One row: the body and parameters of a request."""

    #: Bytes, unless TorchServe has decoded it.
    body: Any
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: The deadline and, if known, the time of sending, in seconds of the monotonic clock.
    deadline: float = math.inf
    sent_at: float | None = None
    #: The row's position in the `CancellationTable`.
    number: str | None = None
    #: The trace context; empty without a trace.
    trace: str = ""

    def read_json(self) -> Any:
        """Return the parsed body. Raises TaskError if it is not JSON."""
        if not isinstance(self.body, bytes | bytearray | str):
            return self.body
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise TaskError(
                "malformed-json",
                "The body is not JSON, or was sent without the header "
                '"Content-Type: application/json".',
            ) from error

    def read(self, schema: type[Schema]) -> Schema:
        """Return the body as a `schema` instance. Raises TaskError if it is invalid."""
        content = self.read_json()
        if not isinstance(content, dict):
            raise invalid("expected a JSON object")
        return _validate(schema, content, is_strict=True)

    def read_parameters(self, schema: type[Schema]) -> Schema:
        """Return the parameters as a `schema` instance. Raises TaskError if one is invalid."""
        return _validate(schema, self.parameters, is_strict=False)


Result = dict[str, Any] | TaskError


@dataclass(frozen=True)
class Outcome:
    """The outcome of a batch: a result or error per row, in order, and the batch's counts, by
    the names in `torchserve_backend/metrics.yaml`."""

    results: list[Result]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class ModelConfig:
    """The settings under `handler` in the archive's `model-config.yaml`, and the device."""

    directory: Path
    #: None for the CPU.
    gpu: int | None
    options: Mapping[str, Any]


class Context(Protocol):
    """The part of `ts.context.Context` that handlers use."""

    model_name: str
    model_yaml_config: dict[str, Any]
    system_properties: dict[str, Any]
    metrics: Any

    def get_request_header(self, idx: int, key: str) -> str | None: ...
    def set_response_status(self, code: int, phrase: str, idx: int) -> None: ...
    def set_response_content_type(self, request_id: int, value: str) -> None: ...


Item = TypeVar("Item")


class CancellationTable:
    """The cancelled rows, in a file that the gateway shares with its machine's workers: a byte
    per row, 0 once its client has gone. Without the file, no row counts as cancelled."""

    def __init__(self) -> None:
        self._run = variables.find_run()
        self._bytes: mmap.mmap | None = None

    def is_wanted(self, number: str | None) -> bool:
        """Whether a client still waits for the row with this number, from the row's header."""
        if not self._run or number is None or not number.isdecimal():
            return True
        rows = self._bytes = self._bytes or self._open(self._run)
        return rows is None or int(number) >= len(rows) or bool(rows[int(number)])

    def _open(self, run: Path) -> mmap.mmap | None:
        """Return None if the gateway has not created the file yet; the next call retries."""
        try:
            with (run / ROWS_FILE).open("rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return None


class TaskHandler(ABC, Generic[Item]):
    """A task's handler: `load_model` loads a model, `preprocess` parses rows, `infer` answers.

    TorchServe calls `initialize` once and `handle` for every batch; other callers use `start`
    and `answer` instead. A module that TorchServe loads must define exactly one class.
    """

    #: Identifies the model, its engine and their options. Unless it is empty, answers contain
    #: it and the compute time of their batch.
    digest = ""

    @abstractmethod
    def load_model(self, config: ModelConfig) -> None:
        """Load the model and warm it up."""

    @abstractmethod
    def preprocess(self, row: Row) -> Item:
        """Parse a row. Raises TaskError if it is malformed."""

    @abstractmethod
    def infer(self, items: Sequence[Item], deadline: float) -> Outcome:
        """Return one result or error per item, in order, and the task's own counts. It may stop
        at `deadline`, in seconds of the monotonic clock, after which all items are late."""

    def initialize(self, context: Context) -> None:
        """Start the handler in a new worker of TorchServe, which is READY when this returns."""
        # Log to stderr, because TorchServe drops log lines on stdout.
        if logging.lastResort:
            logging.getLogger("handlers").addHandler(logging.lastResort)
        _silence_batches()
        with explain_load(context.model_name):
            options = context.model_yaml_config["handler"]
            gpu = context.system_properties.get("gpu_id")
            actual = "cpu" if gpu is None else str(gpu)
            if actual not in options["devices"]:  # TorchServe falls back silently
                wanted = ", ".join(options["devices"])
                raise RuntimeError(
                    f"the map assigns this model to {wanted}, TorchServe to {actual}"
                )
            self.start(ModelConfig(Path(options["model_path"]), gpu, options))

    def start(self, config: ModelConfig) -> None:
        """Prepare the handler for `answer`."""
        self._cancelled = CancellationTable()
        self._tracer = variables.find_tracer()
        self.counting = ThreadPoolExecutor(1)
        self._uncounted: deque[Mapping[str, int]] = deque()
        self._recent_s: deque[float] = deque(maxlen=_RECENT_BATCHES)
        self.load_model(config)

    def handle(self, rows: list[dict[str, Any]], context: Context) -> list[bytes]:
        """Answer a batch from TorchServe with one JSON document per row."""
        outcome = self.answer(
            [_read_row(row, context, i) for i, row in enumerate(rows)]
        )
        self._uncounted.append(outcome.counts)
        if len(self._uncounted) == 1:
            self.counting.submit(_emit, self._uncounted, context)
        return [_encode(result, context, i) for i, result in enumerate(outcome.results)]

    def answer(self, rows: Sequence[Row]) -> Outcome:
        """Return a result or error per row, in order, and all counts. A bad row fails alone."""
        counts = Counter(_count_rows(rows))
        results: list[Any] = [self._drop(row) for row in rows]
        kept = [i for i, dropped in enumerate(results) if dropped is None]
        counts["BabelgateDroppedRows"] = len(rows) - len(kept)
        for i in kept:
            results[i] = self._preprocess(rows[i])
        good = [i for i in kept if not isinstance(results[i], TaskError)]
        if good:
            began = time.perf_counter()
            latest = max(rows[i].deadline for i in good)
            # Halving a failed batch isolates the row that breaks it, so only that one is lost.
            run = partial(self._infer, deadline=latest, counts=counts)
            found, _ = run_in_halves(run, [results[i] for i in good], _BatchError)
            compute_s = time.perf_counter() - began
            self._recent_s.append(compute_s)
            counts["BabelgateComputeMs"] += round(compute_s * 1000)
            if self._tracer:
                began_at = time.monotonic() - compute_s
                sent_at = min(row.sent_at or began_at for row in rows)
                self._tracer.add_batch([rows[i].trace for i in good], sent_at, began_at)
            lost = TaskError("internal", "The model failed on this row.")
            made = {"model": self.digest, "compute_ms": round(1000 * compute_s, 1)}
            for i, result in zip(good, found, strict=True):
                if isinstance(result, dict) and self.digest:
                    result |= made
                results[i] = lost if isinstance(result, _BatchError) else result
        elif self._recent_s:  # else rows with less time would be dropped forever
            self._recent_s.popleft()
        return Outcome(results, counts)

    def _drop(self, row: Row) -> TaskError | None:
        """Return an error if the row was cancelled, or would miss its deadline even if this
        batch took no longer than the shortest recent one."""
        if not self._cancelled.is_wanted(row.number):
            return TaskError("not-wanted", "Nobody awaits this row.")
        needed_s = min(self._recent_s, default=0.0)
        if time.monotonic() + needed_s <= row.deadline:
            return None
        return TaskError(
            "deadline", "The deadline passed while the row was queued, or is too close."
        )

    def _preprocess(self, row: Row) -> Item | TaskError:
        """Parse a row and return any error, because raising it would fail the whole batch."""
        try:
            return self.preprocess(row)
        except TaskError as error:
            return error
        except Exception as error:
            log.error("reading a row failed with %s", type(error).__name__)
            return TaskError("internal", "This row could not be read.")

    def _infer(
        self, items: Sequence[Item], deadline: float, counts: Counter[str]
    ) -> list[Any]:
        """Run and count a batch. Error messages may quote the user's text: do not log them."""
        try:
            outcome = self.infer(items, deadline)
            if len(outcome.results) != len(items):
                raise RuntimeError("expected one result per row")
        except DeviceFault as error:
            first_line = str(error).partition("\n")[0]
            log.critical("the device failed, this worker exits: %s", first_line)
            os._exit(1)  # TorchServe starts another worker only after this one exits
        except Exception as error:
            log.error(
                "a batch of %d rows failed with %s", len(items), type(error).__name__
            )
            raise _BatchError from error
        counts.update(outcome.counts)
        return outcome.results


def digest_model(config: ModelConfig) -> str:
    """Hash a model's files, the options that may change answers, and the handlers' code."""
    options = [config.options.get(name) for name in _SAID]
    files = digest_files(config.directory)
    content = repr((options, config.gpu is None, files, _CODE.hexdigest()))
    return sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]


class _BatchError(Exception):
    """The failure of a batch, whose halves then run instead."""


def list_counters() -> list[str]:
    """List the counters that operators can see; TorchServe drops all others."""
    import yaml  # TorchServe workers do not need it

    declared = yaml.safe_load(_METRICS.read_text("utf-8"))
    return [counter["name"] for counter in declared["model_metrics"]["counter"]]


def start_handler(
    task: str, directory: Path, gpu: int | None, options: Mapping[str, Any]
) -> TaskHandler[Any]:
    """Start a task's handler with the model in `directory`, on the CPU if `gpu` is None."""
    handler: TaskHandler[Any] = find_class("handlers", task)()
    handler.start(ModelConfig(directory, gpu, options))
    return handler


@contextmanager
def explain_load(model: str) -> Iterator[None]:
    """Log any error that occurs while a model is loaded, and raise it as a LoadError."""
    try:
        yield
    except Exception as error:
        said = f"{model} cannot be loaded: {type(error).__name__}: {error}"
        log.critical("the model %s", said, exc_info=error)
        raise LoadError(said) from error


class ReloadableHandler:
    """A handler that an empty batch unloads, and the next one reloads with `start`. Only one
    thread at a time may call `answer`."""

    def __init__(self, start: Callable[[], TaskHandler[Any]]) -> None:
        self._start, self._began_at = start, math.inf
        self._handler: TaskHandler[Any] | None = self._load()
        #: When the last reload ended. No row waited for the first load, or its download.
        self.back_at, self._load_s = 0.0, _LOAD_S

    @property
    def load_left_s(self) -> float:
        """The seconds until a reload is complete, estimated from the last one; 0 if loaded."""
        if self._handler:
            return 0.0
        spent_s = max(0.0, time.monotonic() - self._began_at)
        return max(_LEAST_S, self._load_s - spent_s)

    def answer(self, rows: Sequence[Row]) -> Outcome:
        """Answer like a `TaskHandler`, and add the time that each row waited for the model."""
        if not rows:
            self._unload()
            return Outcome([], {})
        handler = self._handler = self._handler or self._load()
        outcome = handler.answer(rows)
        for row, result in zip(rows, outcome.results, strict=True):
            waited_s = self.back_at - (row.sent_at or math.inf)
            if waited_s > 0 and isinstance(result, dict):
                result["loading_ms"] = 1000 * waited_s
        return outcome

    def _load(self) -> TaskHandler[Any]:
        began = self._began_at = time.monotonic()
        handler = self._start()
        self.back_at, self.digest = time.monotonic(), handler.digest
        self._load_s = self.back_at - began
        return handler

    def _unload(self) -> None:
        if self._handler:
            self._began_at, self._handler = math.inf, None
            gc.collect()
            if torch := sys.modules.get("torch"):
                torch.cuda.empty_cache()
            with suppress(AttributeError, OSError):  # only the GNU C library has it
                ctypes.CDLL(None).malloc_trim(0)


def write_answer(result: Result) -> tuple[int, str, bytes]:
    """Return the status, content type and body of a row's HTTP response."""
    if isinstance(result, TaskError):
        document = json.dumps(result.to_document(), ensure_ascii=False)
        return result.status, CONTENT_TYPE, document.encode()
    return HTTPStatus.OK, _JSON, json.dumps(result, ensure_ascii=False).encode()


def invalid(detail: str) -> TaskError:
    """Return the error for a row with invalid or unsupported options."""
    return TaskError("invalid-request", detail)


def _validate(
    schema: type[Schema], content: Mapping[str, Any], *, is_strict: bool
) -> Schema:
    try:
        return schema.model_validate(content, strict=is_strict)
    except ValidationError as error:
        faults = list_faults(error.errors(include_url=False), schema)
        said = "; ".join(f"{field}: {fault}" for field, fault in faults.items())
        raise invalid(said) from error


def _count_rows(rows: Sequence[Row]) -> dict[str, int]:
    """Return the counts of a batch that are known before it runs."""
    now = time.monotonic()
    waits_s = [now - row.sent_at for row in rows if row.sent_at is not None]
    waited_s = sum(wait for wait in waits_s if 0 < wait < _LONGEST_WAIT_S)
    return {
        "BabelgateBatches": 1,
        "BabelgateRows": len(rows),
        "BabelgateQueueMs": round(waited_s * 1000),
        "BabelgateComputeMs": 0,
    }


def _silence_batches() -> None:
    """Suppress TorchServe's two lines on stdout per batch, its arrival and its PredictionTime,
    because every line wakes the frontend. Counts still pass, four times a second."""
    logging.getLogger().setLevel(logging.WARNING)
    metrics = logging.getLogger("ts.metrics.caching_metric")
    metrics.setLevel(logging.INFO)
    metrics.addFilter(lambda record: "PredictionTime" not in record.getMessage())


def _emit(uncounted: deque[Mapping[str, int]], context: Context) -> None:
    """Write one line per metric to stdout for all batches of a quarter of a second."""
    time.sleep(COUNT_S)
    counts: Counter[str] = Counter()
    while uncounted:
        counts.update(uncounted.popleft())
    try:
        for name, value in counts.items():
            context.metrics.add_counter(name, value, 0)
    except Exception as error:
        log.error("counting a batch failed with %s", type(error).__name__)


def _read_row(row: Mapping[str, Any], context: Context, index: int) -> Row:
    header = partial(context.get_request_header, index)
    deadline = _read_ms(header(contract.rows.DEADLINE))
    parameters = header(contract.rows.PARAMETERS)
    return Row(
        next((row[key] for key in _BODY if row.get(key) is not None), b""),
        dict(parse_qsl(parameters)) if parameters else {},
        math.inf if deadline is None else deadline,
        _read_ms(header(contract.rows.SENT)),
        header(contract.rows.NUMBER),
        header(contract.rows.TRACE) or "",
    )


def _read_ms(header: str | None) -> float | None:
    """Convert a header from milliseconds to seconds; None if it is not a finite number."""
    try:
        value = float(header or "nan")
    except ValueError:
        return None
    return value / 1000 if math.isfinite(value) else None


def _encode(result: Result, context: Context, index: int) -> bytes:
    status, content_type, body = write_answer(result)
    if isinstance(result, TaskError):
        context.set_response_status(status, TITLES[status], index)
    context.set_response_content_type(index, content_type)
    return body
