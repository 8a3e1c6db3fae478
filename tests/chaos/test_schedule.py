"""What the chaos is made of, without any stack: the drawing of faults, and the verdicts."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from tests.chaos import hostility
from tests.chaos.faults import FAULTS
from tests.chaos.load import BROKEN, CUT, HUNG, PROBLEM, RIGHT, WRONG, Exchange
from tests.chaos.scene import Window
from tests.chaos.schedule import draw_schedule
from tests.chaos.starvation import read_waits
from tests.chaos.verdicts import Disorder, find_fault, has_grown, list_faults
from tests.e2e.real_stack import wait_until

#: A process and its worker that both want the same core.
RIVALS = """import os
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
first, child = os.getpid(), os.fork()
while child or os.getppid() == first: pass"""
ORDER = Disorder(shut=[], frozen=[])
KILLED = Disorder(shut=[Window("nginx master", 10.0, 12.0)], frozen=[])
CUT_OFF = Disorder([], [], cut=[Window("gateway worker", 10.0, 12.0)])
STOPPED = Disorder(shut=[], frozen=[Window("nginx worker", 10.0, 12.0)])


def exchange(outcome: str, lasted_s: float = 0.1, **fields) -> Exchange:
    return Exchange("sentence", 10.5, 10.5 + lasted_s, 2.0, outcome, **fields)


def test_a_seed_gives_the_same_faults_again():
    assert draw_schedule(7, list(FAULTS)) == draw_schedule(7, list(FAULTS))
    assert draw_schedule(7, list(FAULTS)) != draw_schedule(8, list(FAULTS))


def test_every_fault_comes_once():
    drawn = [event.fault for event in draw_schedule(1, list(FAULTS))]
    assert sorted(drawn) == sorted(FAULTS)


def test_hostile_requests_fit_through_the_door_and_can_be_repeated():
    for draw in (hostility.draw_text, hostility.draw_junk):
        for seed in range(50):
            question = draw(random.Random(seed), "marker")
            assert len(question.body) < 1 << 20
            assert question == draw(random.Random(seed), "marker")


LATE = "no answer in time"
EXCHANGES = {
    "right": (exchange(RIGHT, 2.9), ORDER, ""),
    "right, too late": (exchange(RIGHT, 3.1), ORDER, LATE),
    "late by a stop": (exchange(RIGHT, 4.3), STOPPED, ""),
    "later than a stop": (exchange(RIGHT, 5.1), STOPPED, LATE),
    "no answer": (exchange(HUNG, 8), ORDER, LATE),
    "no answer of a killed nginx": (exchange(HUNG, 8), KILLED, ""),
    "broken": (exchange(BROKEN, detail="reset"), ORDER, "connection reset"),
    "broken by a killed nginx": (exchange(BROKEN), KILLED, ""),
    "cut by a killed gateway": (exchange(BROKEN, detail=CUT), CUT_OFF, ""),
    "cut": (exchange(BROKEN, detail=CUT), ORDER, f"connection {CUT}"),
    "wrong": (exchange(WRONG, status=200), KILLED, "wrong answer, status 200"),
    "not ready": (exchange(PROBLEM, status=503, slug="not-ready"), ORDER, ""),
    "an unknown problem": (
        *(exchange(PROBLEM, status=503, slug="tired"), ORDER),
        "503 tired is not documented",
    ),
    "a good request refused for good": (
        *(exchange(PROBLEM, status=400, slug="malformed-request"), ORDER),
        "400 malformed-request is no answer to this",
    ),
    "a fault of ours": (
        *(exchange(PROBLEM, status=500, slug="internal"), ORDER),
        "500 internal is no answer to this",
    ),
}


@pytest.mark.parametrize(
    ("found", "disorder", "fault"), EXCHANGES.values(), ids=EXCHANGES.keys()
)
def test_a_request_gets_a_right_answer_or_a_problem_in_time(
    found: Exchange, disorder: Disorder, fault: str
):
    assert find_fault(found, disorder) == fault


def test_faults_are_counted_by_kind():
    broken = exchange(BROKEN, detail="reset")
    assert list_faults([broken, exchange(RIGHT), broken], ORDER, 10.0) == [
        "2 x sentence: connection reset; sent at 0.5, 0.5 s"
    ]


@pytest.mark.parametrize(
    ("after", "grown"),
    [
        ({"gateway": 154.0, "torchserve": 360.0}, False),
        ({"gateway": 156.0, "torchserve": 300.0}, True),
        ({"gateway": 100.0, "torchserve": 366.0}, True),
        ({"gateway": 100.0, "torchserve": 300.0, "nginx": 56.0}, True),
    ],
    ids=["by a little", "the gateway", "Java", "nginx"],
)
def test_memory_may_grow_by_a_little(after: dict[str, float], grown: bool):
    before = {"gateway": 100.0, "torchserve": 300.0}
    assert has_grown(before, after) == grown


def test_the_kernel_counts_for_how_long_a_process_wants_a_core():
    with subprocess.Popen([sys.executable, "-c", RIVALS]) as rivals:
        try:
            wait_until(lambda: sum(read_waits(rivals.pid).values()) > 0.1)
        finally:
            rivals.kill()
