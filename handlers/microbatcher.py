"""Batches items that many threads submit one by one; each item gets a Future."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: The longest time that `close` waits for queued items.
_DRAIN_S = 30.0


class Refused(Exception):
    """The batcher is closed, or its queue is full."""


class QueueFull(Refused):
    """The queue has reached its bound."""


class BatchFailed(Exception):
    """A batch failed, but not with an ordinary exception of its function."""


@dataclass(frozen=True, eq=False)
class _Entry(Generic[Item, Result]):
    item: Item
    future: Future[Result] = field(default_factory=Future)
    came_at: float = field(default_factory=time.monotonic)


class MicroBatcher(Generic[Item, Result]):
    """A queue whose items run in batches of up to `batch_size`. Each function in `works` runs
    one batch at a time; a free one gets the next. A batch starts when it is full, or `wait_s`
    after its first item was submitted. While `queue_size` items wait, more are refused.

    A function's exception reaches every item of its batch and no others. Items cancelled before
    their batch starts do not run. Whenever no item has been submitted for `idle_s` and no batch
    runs, every function gets an empty batch. Needs only the standard library.
    """

    def __init__(
        self,
        *works: Callable[[Sequence[Item]], Sequence[Result]],
        batch_size: int,
        wait_s: float,
        queue_size: int,
        idle_s: float | None = None,
    ) -> None:
        self._works, self._idle_s = works, idle_s
        self._batch_size = min(batch_size, queue_size)
        self._wait_s = wait_s
        self._queue_size = queue_size
        self._waiting: deque[_Entry[Item, Result]] = deque()
        self._is_closed = False
        self._changed = threading.Condition()
        #: Only one thread at a time collects a batch; two would split its items.
        self._filling = threading.Lock()
        self._running = 0
        self._threads = [
            threading.Thread(target=self._run_batches, args=(work,), daemon=True)
            for work in works
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """The number of items that are not in a batch yet."""
        return len(self._waiting)

    def submit(self, item: Item) -> Future[Result]:
        """Queue an item. Raises Refused, or QueueFull."""
        entry: _Entry[Item, Result] = _Entry(item)
        with self._changed:
            if self._is_closed:
                raise Refused("this batcher no longer accepts items")
            if len(self._waiting) >= self._queue_size:  # cancelled items wait no more
                left = (e for e in self._waiting if not e.future.cancelled())
                self._waiting = deque(left)
            if len(self._waiting) >= self._queue_size:
                raise QueueFull(f"{self._queue_size} items are already waiting")
            self._waiting.append(entry)
            # Only one thread waits: for the first item of a batch, then for the last.
            if len(self._waiting) in (1, self._batch_size):
                self._changed.notify()
        return entry.future

    def close(self, limit_s: float = _DRAIN_S) -> None:
        """Refuse new items, and wait up to `limit_s` for the others; the rest get Refused."""
        give_up_at = time.monotonic() + limit_s
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, give_up_at - time.monotonic()))
        with self._changed:
            left = self._take_batch(len(self._waiting))
        _fail(left, Refused("this batcher was closed before the item's turn"))

    def _run_batches(self, work: Callable[[Sequence[Item]], Sequence[Result]]) -> None:
        while self._run_next(work):
            pass  # returning frees the last batch while the next one fills

    def _run_next(self, work: Callable[[Sequence[Item]], Sequence[Result]]) -> bool:
        with self._filling:
            batch = self._collect()
            if not (batch or self._running or self._is_closed):
                for each in self._works:
                    _answer_batch(each, [])
        if kept := [e for e in batch if e.future.set_running_or_notify_cancel()]:
            _answer_batch(work, kept)
        with self._changed:
            self._running -= bool(batch)
        return bool(batch or self._waiting) or not self._is_closed

    def _collect(self) -> list[_Entry[Item, Result]]:
        """Return the next batch: empty if idle for `idle_s`, or once closed and drained."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or self._is_closed, self._idle_s
            )
            if self._waiting:
                leaves_at = self._waiting[0].came_at + self._wait_s
                self._changed.wait_for(
                    lambda: len(self._waiting) >= self._batch_size or self._is_closed,
                    max(0.0, leaves_at - time.monotonic()),
                )
            batch = self._take_batch(self._batch_size)
            self._running += bool(batch)
            return batch

    def _take_batch(self, most: int) -> list[_Entry[Item, Result]]:
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]


def _answer_batch(
    work: Callable[[Sequence[Item]], Sequence[Result]],
    batch: Sequence[_Entry[Item, Result]],
) -> None:
    """Run a batch. An error reaches only the batch's callers and does not end the thread."""
    try:
        results = list(work([entry.item for entry in batch]))
        if len(results) != len(batch):
            raise BatchFailed(f"{len(results)} results for {len(batch)} items")
    except Exception as error:
        _fail(batch, error)
    except BaseException as error:  # it would end this thread and then its callers
        _fail(batch, BatchFailed(f"the batch was ended by {type(error).__name__}"))
    else:
        for entry, result in zip(batch, results, strict=True):
            entry.future.set_result(result)


def _fail(batch: Sequence[_Entry[Item, Result]], error: Exception) -> None:
    for entry in batch:
        if entry.future.running() or entry.future.set_running_or_notify_cancel():
            entry.future.set_exception(error)
