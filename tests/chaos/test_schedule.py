"""What the chaos is made of, without any stack: the drawing of faults, and the verdicts."""

from __future__ import annotations

import random

import pytest

from tests.chaos import hostility
from tests.chaos.faults import FAULTS
from tests.chaos.load import BROKEN, CUT, HUNG, PROBLEM, RIGHT, WRONG, Exchange
from tests.chaos.scene import Window
from tests.chaos.schedule import draw_schedule
from tests.chaos.verdicts import Disorder, find_fault, has_grown, list_faults

ORDER = Disorder(shut=[], frozen=[])
KILLED = Disorder(shut=[Window("nginx master", 10.0, 12.0)], frozen=[])
CUT_OFF = Disorder([], [], cut=[Window("gateway worker", 10.0, 12.0)])
STOPPED = Disorder(shut=[], frozen=[Window("gateway worker", 10.0, 12.0)])


def exchange(outcome: str, lasted_s: float = 0.1, **fields) -> Exchange:
    return Exchange("sentence", 10.5, 10.5 + lasted_s, 2.0, outcome, **fields)


def test_a_seed_gives_the_same_faults_again():
    assert draw_schedule(7, list(FAULTS), 3) == draw_schedule(7, list(FAULTS), 3)
    assert draw_schedule(7, list(FAULTS)) != draw_schedule(8, list(FAULTS))


def test_every_fault_comes():
    drawn = [event.fault for event in draw_schedule(1, list(FAULTS), 3)]
    assert set(drawn) == set(FAULTS)
    assert len(drawn) == len(FAULTS) + 3


def test_hostile_requests_fit_through_the_door_and_can_be_repeated():
    for draw in (hostility.draw_text, hostility.draw_junk):
        for seed in range(50):
            question = draw(random.Random(seed), "marker")
            assert len(question.body) < 1 << 20
            assert question == draw(random.Random(seed), "marker")


@pytest.mark.parametrize(
    ("found", "disorder", "fault"),
    [
        pytest.param(exchange(RIGHT, 2.9), ORDER, "", id="right"),
        pytest.param(
            exchange(RIGHT, 3.1), ORDER, "no answer in time", id="right, too late"
        ),
        pytest.param(exchange(RIGHT, 4.3), STOPPED, "", id="late by a stop"),
        pytest.param(
            exchange(RIGHT, 5.1), STOPPED, "no answer in time", id="later than a stop"
        ),
        pytest.param(exchange(HUNG, 8), ORDER, "no answer in time", id="no answer"),
        pytest.param(exchange(HUNG, 8), KILLED, "", id="no answer of a killed nginx"),
        pytest.param(
            exchange(BROKEN, detail="reset"), ORDER, "connection reset", id="broken"
        ),
        pytest.param(exchange(BROKEN), KILLED, "", id="broken by a killed nginx"),
        pytest.param(
            exchange(BROKEN, detail=CUT), CUT_OFF, "", id="cut by a killed gateway"
        ),
        pytest.param(
            exchange(BROKEN, detail=CUT), ORDER, f"connection {CUT}", id="cut"
        ),
        pytest.param(
            exchange(WRONG, status=200), KILLED, "wrong answer, status 200", id="wrong"
        ),
        pytest.param(
            exchange(PROBLEM, status=503, slug="not-ready"), ORDER, "", id="not ready"
        ),
        pytest.param(
            exchange(PROBLEM, status=503, slug="tired"),
            *(ORDER, "503 tired is not documented"),
            id="an unknown problem",
        ),
        pytest.param(
            exchange(PROBLEM, status=400, slug="malformed-request"),
            *(ORDER, "400 malformed-request is no answer to this"),
            id="a good request refused for good",
        ),
        pytest.param(
            exchange(PROBLEM, status=500, slug="internal"),
            *(ORDER, "500 internal is no answer to this"),
            id="a fault of ours",
        ),
    ],
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
        pytest.param({"gateway": 124.0, "torchserve": 360.0}, False, id="by a little"),
        pytest.param({"gateway": 126.0, "torchserve": 300.0}, True, id="the gateway"),
        pytest.param({"gateway": 100.0, "torchserve": 366.0}, True, id="Java"),
        pytest.param(
            {"gateway": 100.0, "torchserve": 300.0, "nginx": 26.0}, True, id="nginx"
        ),
    ],
)
def test_memory_may_grow_by_a_little(after: dict[str, float], grown: bool):
    before = {"gateway": 100.0, "torchserve": 300.0}
    assert has_grown(before, after) == grown
