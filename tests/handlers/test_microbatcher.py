"""The batcher: the items of each batch, the result of each item, and no lost items."""

import random
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from handlers import microbatcher
from handlers.microbatcher import BatchFailed, MicroBatcher, QueueFull, Refused

LIMIT_S = 60
#: Longer than a test may take: a batch that waits this long for other items fails its test.
FOR_EVER_S = 10 * LIMIT_S

Batcher = MicroBatcher[Any, Any]


def make_batcher(
    *works, batch_size=64, wait_s=0.0, queue_size=10_000, idle_s=None
) -> Batcher:
    sizes = {"batch_size": batch_size, "queue_size": queue_size}
    return MicroBatcher(*works, wait_s=wait_s, idle_s=idle_s, **sizes)


def run_batcher(*works, **options: Any) -> closing[Batcher]:
    return closing(make_batcher(*works, **options))


class Gate:
    """Work that starts, then waits for `open`, and records every batch."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, items: Sequence[Any]) -> Sequence[Any]:
        self.batches.append(list(items))
        self.begun.release()
        assert self.open.wait(LIMIT_S)
        return items

    def wait_for_batch(self) -> None:
        assert self.begun.acquire(timeout=LIMIT_S)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def results_of(futures: Sequence[Future[Any]]) -> list[Any]:
    return [future.result(LIMIT_S) for future in futures]


def test_every_work_gets_an_empty_batch_while_no_item_comes():
    batches: list[list[Any]] = [[], []]
    is_idle = threading.Semaphore(0)

    def work(number: int, items: Sequence[Any]) -> Sequence[Any]:
        batches[number].append(items)
        if not items:
            is_idle.release()
            raise ValueError("nobody gets this")
        return items

    works = (partial(work, number) for number in range(2))
    with run_batcher(*works, idle_s=0.01) as batcher:
        for _ in range(4):
            assert is_idle.acquire(timeout=LIMIT_S)
        assert batcher.submit("a").result(LIMIT_S) == "a"
    assert [[] in each for each in batches] == [True, True]
    assert batches[0].count(["a"]) + batches[1].count(["a"]) == 1


def test_no_work_gets_an_empty_batch_while_one_runs():
    is_idle = threading.Event()

    def work(items: Sequence[Any]) -> Sequence[Any]:
        if not items:
            is_idle.set()
            return items
        is_idle.clear()
        return [is_idle.wait(0.1)]

    with run_batcher(work, work, idle_s=0.005) as batcher:
        assert batcher.submit("a").result(LIMIT_S) is False


def test_what_has_come_while_a_batch_ran_leaves_together(gate: Gate):
    with run_batcher(gate) as batcher:
        first = batcher.submit(0)
        gate.wait_for_batch()
        others = [batcher.submit(n) for n in range(1, 6)]
        assert batcher.waiting == 5
        gate.open.set()
        assert results_of([first, *others]) == list(range(6))
    assert gate.batches == [[0], [1, 2, 3, 4, 5]]


def test_an_item_has_waited_while_another_batch_ran(gate: Gate, monkeypatch):
    """Its wait counts from its arrival, not from the end of the other batch."""
    with run_batcher(gate, batch_size=2, wait_s=FOR_EVER_S) as batcher:
        both = [batcher.submit(n) for n in range(2)]
        gate.wait_for_batch()
        late = batcher.submit(2)
        later = time.monotonic() + FOR_EVER_S
        clock = SimpleNamespace(monotonic=lambda: later)
        monkeypatch.setattr(microbatcher, "time", clock)
        gate.open.set()
        assert results_of([*both, late]) == [0, 1, 2]
    assert gate.batches == [[0, 1], [2]]


def test_works_run_at_the_same_time_and_share_the_queue():
    together = threading.Barrier(3)

    def work(items: Sequence[int]) -> list[int]:
        together.wait(LIMIT_S)
        return [threading.get_ident() for _ in items]

    with run_batcher(work, work, work, batch_size=1) as batcher:
        assert len(set(results_of([batcher.submit(n) for n in range(3)]))) == 3


def fail_with(error: BaseException) -> Callable[[Sequence[int]], list[int]]:
    """Make work that raises the error for batches with a zero."""

    def work(items: Sequence[int]) -> list[int]:
        if 0 in items:
            raise error
        return list(items)

    return work


@pytest.mark.parametrize(
    ("work", "error"),
    [
        pytest.param(lambda items: [1] * sum(items), BatchFailed, id="too few"),
        (lambda items: (1 / item for item in items), ZeroDivisionError),
        pytest.param(fail_with(SystemExit(3)), BatchFailed, id="exit"),
        pytest.param(fail_with(CancelledError()), CancelledError, id="cancelled"),
    ],
)
def test_a_batch_that_fails_fails_alone(work, error: type[Exception]):
    with run_batcher(work, batch_size=2, wait_s=0.001) as batcher:
        for future in [batcher.submit(0), batcher.submit(0)]:
            assert isinstance(future.exception(LIMIT_S), error)
        assert batcher.submit(1).result(LIMIT_S) == 1


def test_more_than_the_queue_holds_is_refused_and_who_has_gone_is_not_run(gate: Gate):
    with run_batcher(gate, batch_size=1, queue_size=2) as batcher:
        first = batcher.submit("first")
        gate.wait_for_batch()
        for _ in range(2):
            batcher.submit("gone").cancel()
        gone, last = batcher.submit("gone"), batcher.submit("last")
        with pytest.raises(QueueFull, match="2 items are already waiting"):
            batcher.submit("refused")
        gone.cancel()
        gate.open.set()
        assert first.result(LIMIT_S) == "first"
        assert last.result(LIMIT_S) == "last"
    assert gate.batches == [["first"], ["last"]]


def test_close_answers_what_waits_and_refuses_what_comes(gate: Gate):
    batcher = make_batcher(gate, batch_size=2, wait_s=FOR_EVER_S)
    futures = [batcher.submit(n) for n in range(5)]
    gate.wait_for_batch()
    closing = threading.Thread(target=batcher.close)
    closing.start()

    def is_closed() -> bool:
        try:
            futures.append(batcher.submit(len(futures)))
        except Refused:
            return True
        return False

    while not is_closed():
        pass
    gate.open.set()
    closing.join(LIMIT_S)
    assert not closing.is_alive()
    assert [future.result(0) for future in futures] == list(range(len(futures)))
    batcher.close()


def test_who_cannot_be_answered_in_time_is_told_that_it_is_closed(gate: Gate):
    batcher = make_batcher(gate, batch_size=1)
    running, waiting, gone = (batcher.submit(n) for n in range(3))
    gate.wait_for_batch()
    gone.cancel()
    batcher.close(limit_s=0)
    assert isinstance(waiting.exception(LIMIT_S), Refused)
    gate.open.set()
    assert running.result(LIMIT_S) == 0
    batcher.close()
    assert gate.batches == [[0]]


def test_nothing_of_a_batch_is_kept_when_it_is_over():
    class Large:
        pass

    with run_batcher(lambda items: [None for _ in items]) as batcher:
        item = Large()
        trace = weakref.ref(item)
        future = batcher.submit(item)
        del item
        future.result(LIMIT_S)
        del future
        give_up_at = time.monotonic() + LIMIT_S
        while trace() is not None:
            assert time.monotonic() < give_up_at


def test_under_a_storm_nobody_is_lost_or_answered_twice():
    """Threads that submit, some of which give up, a small queue, and work that may fail."""
    clients, each = 32, 100
    ran: Counter[int] = Counter()
    counting = threading.Lock()

    def work(numbers: Sequence[int]) -> list[int]:
        with counting:
            ran.update(numbers)
        if random.Random(numbers[0]).random() < 0.1:
            raise LookupError
        return [-number for number in numbers]

    def ask(number: int, batcher: Batcher) -> str:
        try:
            future = batcher.submit(number)
            if number % 7 == 0:
                future.cancel()
            result = future.result(LIMIT_S)
        except (QueueFull, CancelledError, LookupError) as error:
            return type(error).__name__
        assert result == -number
        return "answered"

    def storm(client: int, batcher: Batcher) -> Counter[str]:
        numbers = range(1 + client * each, 1 + (client + 1) * each)
        return Counter(ask(number, batcher) for number in numbers)

    with (
        run_batcher(
            work, work, work, batch_size=8, wait_s=0.001, queue_size=24
        ) as batcher,
        ThreadPoolExecutor(clients) as pool,
    ):
        outcomes = sum(
            pool.map(partial(storm, batcher=batcher), range(clients)), Counter[str]()
        )
    assert outcomes.total() == clients * each
    assert set(ran.values()) == {1}
    took = outcomes["answered"] + outcomes["LookupError"]
    assert len(ran) == took
    assert batcher.waiting == 0
    assert outcomes["answered"] > 0
