"""A run with workers that end, and on a full cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.errors import ClientError
from deploy.stack import ROOT
from ray_backend.bulk.executor import (
    GONE_S,
    PATIENCE_S,
    STOPPED,
    StallMonitor,
    _explain,
    divide,
)


def answer(items: Sequence[int], deadly: set[int]) -> tuple[list[int | None], int]:
    """The answers, and how many workers it took."""
    steps = divide(items)
    asked = next(steps)
    for deaths in count():
        try:
            while not deadly & set(asked):
                asked = steps.send(asked)
            asked = steps.send(None)
        except StopIteration as end:
            return end.value, deaths
    raise AssertionError


@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=3))
def test_only_an_item_that_ends_each_worker_has_no_answer(size, deadly):
    answers, _ = answer(range(size), deadly)
    assert answers == [None if n in deadly else n for n in range(size)]


def test_items_are_divided_once_they_have_ended_two_workers():
    steps = divide("abcd")
    assert [next(steps), steps.send(None), steps.send(None)] == ["abcd", "abcd", "ab"]
    assert steps.send("AB") == "cd"


def test_an_item_alone_is_given_up_late():
    """A machine that ends is no fault of the video under way."""
    steps = divide("a")
    assert [next(steps), *(steps.send(None) for _ in range(4))] == ["a"] * 5
    with pytest.raises(StopIteration) as caught:
        steps.send(None)
    assert caught.value.value == [None]


ROOM, CLUSTER = ("room", "taken"), ("the cluster", "no answer")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([ROOM] * 9, []),
        ([ROOM] * 30, ["waiting for room: taken"]),
        ([ROOM] * 9 + [("", "")] + [ROOM] * 9, []),
        ([ROOM] * 12 + [("", "")] + [ROOM] * 12, ["waiting for room: taken"] * 2),
        ([CLUSTER] * 30, ["waiting for the cluster: no answer"]),
        ([ROOM] * 9 + [CLUSTER] * 9 + [ROOM] * 9, []),
    ],
    ids=["not yet", "once", "room was found", "again", "away", "something else"],
)
def test_what_lasts_is_said_once(seen, expected):
    said: list[str] = []
    monitor = StallMonitor(said.append)
    for second, (kind, reason) in enumerate(seen):
        monitor.note(kind, reason, float(second))
    assert said == expected
    assert PATIENCE_S == 10


def test_a_cluster_that_stays_away_ends_the_run():
    monitor = StallMonitor(lambda _: None)
    monitor.note(*CLUSTER, 7.0)
    monitor.note(*CLUSTER, 6.0 + GONE_S)
    with pytest.raises(ClientError) as caught:
        monitor.note(*CLUSTER, 7.0 + GONE_S)
    assert str(caught.value) == "the cluster has been away for 600 s: no answer"


def test_a_run_that_ray_does_not_let_go_is_ended():
    script = """
import sys, time, types
ray = types.ModuleType("ray")
ray.init = lambda **_: None
ray.shutdown = lambda: time.sleep(60)
sys.modules["ray"] = ray
from ray_backend.bulk import executor
executor._END_S = 0
with executor._run_ray({}, lambda line: print(line, flush=True)):
    raise KeyboardInterrupt
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, f"{STOPPED}\n", "")


def test_the_last_line_of_an_error_is_said():
    raised = "clients.errors.OutputError: here does not see /dst"
    error = RuntimeError(f"traceback\n{raised}\n")
    assert _explain(error) == f"the work has failed: {raised}"
