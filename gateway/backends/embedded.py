"""Runs the models in the gateway's own process, without TorchServe. Threads load each
model in the background and run its rows in batches.
"""

import atexit
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from gevent import get_hub
from gevent.event import Event
from prometheus_client import CollectorRegistry, Gauge

from catalog import Model, checkpoint, describe_handler
from gateway.backends.backend import Backend, ModelState, RowRequest
from gateway.errors import DeadlineExceeded, NotReady, Overloaded, RowProblem
from handlers import base
from handlers.base import Result, TaskError, TaskHandler, list_counters, start_handler
from handlers.microbatcher import MicroBatcher, QueueFull, Refused

#: Seconds to wait for running batches when the process ends.
_CLOSE_S = 10.0


class EmbeddedBackend(Backend):
    """A `Backend` with the handlers of `models` in this process. Safe to share among greenlets
    of any thread: a call blocks only its own greenlet."""

    def __init__(self, models: Sequence[Model], registry: CollectorRegistry) -> None:
        # Names and labels are those of TorchServe's metrics page. They are gauges, because the
        # client library's counters have names that end with `_total`.
        self._gauges = {
            name: Gauge(
                name,
                "See docs/operations.md.",
                ["ModelName"],
                registry=registry,
                multiprocess_mode="sum",
            )
            for name in list_counters()
        }
        self._served = {model.name: _Served(model, self._count) for model in models}
        self._loader = threading.Thread(target=self._load, daemon=True)
        self._loader.start()
        # No native code may run while the interpreter shuts down.
        atexit.register(self.close)

    def predict(
        self, model: str, row: RowRequest, *, deadline: float
    ) -> dict[str, Any]:
        try:
            answer = self._ask_model(model, row, deadline)
        except QueueFull as error:
            raise Overloaded(f"The queue for {model} is full.") from error
        except base.LoadError as error:
            raise NotReady(f"The model for {model} could not be loaded.") from error
        except (Refused, CancelledError) as error:
            raise NotReady("The gateway is being stopped.") from error
        if isinstance(answer, TaskError):
            raise RowProblem(answer.to_document())
        return answer

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        return {name: self._served[name].describe() for name in models}

    def close(self, limit_s: float = _CLOSE_S) -> None:
        """Accept no more rows, and wait for the accepted ones."""
        atexit.unregister(self.close)
        give_up_at = time.monotonic() + limit_s
        for served in self._served.values():
            served.handlers.cancel()
        for served in self._served.values():
            served.batcher.close(max(0.0, give_up_at - time.monotonic()))
        self._loader.join(max(0.0, give_up_at - time.monotonic()))

    def _load(self) -> None:
        """Load one model at a time: a load uses all cores, and memory that it then frees."""
        for served in self._served.values():
            served.load()

    def _count(self, model: str, counts: Mapping[str, int]) -> None:
        """Add the counts of a batch. Safe to call from any thread."""
        for name in counts.keys() & self._gauges.keys():
            self._gauges[name].labels(model).inc(counts[name])

    def _ask_model(self, model: str, row: RowRequest, deadline: float) -> Result:
        sent_at = time.monotonic()
        served = self._served[model]
        limit_s = max(0.0, deadline - sent_at)
        future = served.batcher.submit(
            base.Row(row.body, row.parameters, deadline, sent_at, trace=row.trace)
        )
        # A row with less time stays queued, so that the model is loaded.
        if served.load_left_s <= limit_s:
            try:
                if _wait(future, limit_s):
                    return future.result()
            finally:
                if future.cancel():
                    self._count(model, {"BabelgateDroppedRows": 1})
        if left_s := served.load_left_s:
            raise Overloaded(f"{model} is being loaded again.", retry_after_s=left_s)
        raise DeadlineExceeded("the model answered")


class _Served:
    """A model of the map: a handler for each of its workers, and the queue they share."""

    def __init__(
        self, model: Model, count: Callable[[str, Mapping[str, int]], None]
    ) -> None:
        self.handlers: Future[list[base.ReloadableHandler]] = Future()
        self.batcher: MicroBatcher[base.Row, Result] = MicroBatcher(
            *(partial(self._answer_rows, number) for number in range(model.workers)),
            batch_size=model.settings.batch_size,
            wait_s=model.settings.max_batch_delay / 1000,
            queue_size=model.settings.queue_size,
            idle_s=model.settings.idle_unload_s or None,
        )
        self._model = model
        self._count = count

    def load(self) -> None:
        """Load the handlers, unless that was cancelled."""
        if not self.handlers.set_running_or_notify_cancel():
            return
        model = self._model
        starts = [partial(_load, model, number) for number in range(model.workers)]
        try:
            self.handlers.set_result([*map(base.ReloadableHandler, starts)])
        except base.LoadError as error:
            self.handlers.set_exception(error)

    @property
    def load_left_s(self) -> float:
        """The seconds until one of its handlers is loaded again; 0 before the first load."""
        loaded = self.handlers.result() if self.describe().is_ready else ()
        return min((handler.load_left_s for handler in loaded), default=0.0)

    def describe(self) -> ModelState:
        """Return its state. An unloaded model counts as ready."""
        is_ready = self.handlers.done() and self.handlers.exception() is None
        size, waiting = self._model.settings.batch_size, self.batcher.waiting
        return ModelState(is_ready, size, waiting, life="this process")

    def _answer_rows(self, number: int, rows: Sequence[base.Row]) -> list[Result]:
        """Answer a batch, once the handlers are loaded."""
        outcome = self.handlers.result()[number].answer(rows)
        self._count(self._model.name, outcome.counts)
        return outcome.results


def _load(model: Model, number: int) -> TaskHandler[Any]:
    """Load the handler of a worker. Workers are assigned to the devices in rotation."""
    device = model.devices[number % len(model.devices)]
    gpu = int(device) if model.is_on_gpu else None
    with base.explain_load(model.name):
        directory = checkpoint.prepare(model, checkpoint.default_cache())
        options = describe_handler(model, directory)
        return start_handler(model.task, directory, gpu, options)


def _wait(future: Future[Result], limit_s: float) -> bool:
    """Wait for `future`, and return whether it is done in time. Other greenlets run meanwhile.
    A thread must not use another thread's hub, except through an async watcher."""
    done = Event()
    watcher = get_hub().loop.async_()
    watcher.start(done.set)
    try:
        future.add_done_callback(lambda _: watcher.send())
        return bool(done.wait(limit_s))
    finally:
        watcher.close()
