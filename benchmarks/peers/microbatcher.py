"""Single items in from many threads, their results out: one thread runs them in batches, of
which each waits for a limited time to fill.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class MicroBatcher(Generic[Item, Result]):
    """Runs `work` on up to `batch_size` items; a batch waits `wait_s` from its first item
    on. Of more than `queue_size` waiting items the last are refused."""

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        batch_size: int,
        wait_s: float,
        queue_size: int,
    ) -> None:
        self._work = work
        self._batch_size = batch_size
        self._wait_s = wait_s
        self._queue: queue.Queue[tuple[Item, Future[Result]]] = queue.Queue(queue_size)
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, item: Item, timeout_s: float) -> Result:
        """The item's result. Raises queue.Full, TimeoutError, and what its batch raised."""
        future: Future[Result] = Future()
        self._queue.put_nowait((item, future))
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()

    def _run(self) -> None:
        while True:
            batch = self._collect()
            wanted = [
                (item, future)
                for item, future in batch
                if future.set_running_or_notify_cancel()
            ]
            if wanted:
                self._answer(*zip(*wanted, strict=True))

    def _collect(self) -> list[tuple[Item, Future[Result]]]:
        batch = [self._queue.get()]
        full_at = time.monotonic() + self._wait_s
        while len(batch) < self._batch_size:
            remaining_s = max(0.0, full_at - time.monotonic())
            try:
                batch.append(self._queue.get(timeout=remaining_s))
            except queue.Empty:
                break
        return batch

    def _answer(self, items: Sequence[Item], futures: Sequence[Future[Result]]) -> None:
        """Whatever goes wrong reaches those who wait for this batch, and no other."""
        try:
            results = self._work(items)
            if len(results) != len(items):
                raise RuntimeError(f"{len(results)} results for {len(items)} items")
        except Exception as error:
            for future in futures:
                future.set_exception(error)
        else:
            for future, result in zip(futures, results, strict=True):
                future.set_result(result)
