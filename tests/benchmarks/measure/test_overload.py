"""The benchmark of overload: its reading of replies, and the targets that it reports as
missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.instruments.generator import LoadReply, Target
from benchmarks.instruments.running import Running
from benchmarks.instruments.workload import draw, write_request
from benchmarks.measure import overload
from benchmarks.measure.overload import (
    LARGE,
    SMALL,
    Bench,
    choose,
    find_misses,
    find_refusal_cost,
    summarize,
)
from tests.benchmarks.conftest import Server

REPLIES = [
    LoadReply(0, "200", ended_s=0.2, latency_s=0.2, lag_s=0.001),
    LoadReply(1, "200", ended_s=1.0, latency_s=0.6, lag_s=0.0),
    LoadReply(2, "200", ended_s=2.1, latency_s=0.3, lag_s=0.0),
    LoadReply(3, "429", ended_s=0.3, latency_s=0.05, lag_s=0.0),
    LoadReply(4, "reset", ended_s=0.3, latency_s=0.01, lag_s=0.0),
]
SOME_REQUESTS = [write_request(sentence) for sentence in draw(5)]
STEP = replace(summarize(REPLIES, 500, 2.0), load=4.0, share=0.5, late_rows_share=0.2)


def test_what_is_late_or_after_the_load_is_no_goodput():
    assert STEP.good_per_s == pytest.approx(0.5)
    assert (STEP.answered, STEP.late, STEP.refused) == (3, 1, 1)
    assert STEP.refusal_p99_ms == pytest.approx(50)
    assert STEP.p99_ms == pytest.approx(600)
    assert STEP.others == {"reset": 1}
    assert STEP.offered_per_s == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("load", "goals", "goal"),
    [
        pytest.param(4.0, SMALL, 0.75, id="the phrasebook at 4 times"),
        pytest.param(10.0, SMALL, 0.0, id="the phrasebook at 10 times"),
        pytest.param(10.0, LARGE, 0.9, id="a large model at 10 times"),
    ],
)
def test_the_goal_depends_on_load_and_model(
    load: float, goals: dict[float, float], goal: float
):
    kept = replace(summarize([], 500, 1.0), load=load, share=goal)
    assert find_misses([kept], goals) == []
    missed = find_misses([replace(kept, share=max(0.0, goal - 0.01))], goals)
    assert len(missed) == (goal > 0)


def test_what_a_refusal_costs_is_found_among_what_answers_cost():
    steps = [
        replace(STEP, answered=100, refused=0, others={}, cpu_s={"gateway": 0.1}),
        replace(STEP, answered=100, refused=400, others={}, cpu_s={"gateway": 0.18}),
        replace(STEP, answered=50, refused=900, others={}, cpu_s={"gateway": 0.23}),
    ]
    assert find_refusal_cost(steps) == pytest.approx({"gateway": 0.2})
    assert find_refusal_cost(steps[:1]) == {}


def test_a_server_is_pressed_at_multiples_of_its_peak(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(overload, "_LOOK_S", 0)
    target = Target(server.url, SOME_REQUESTS)
    bench = Bench(Running(server.url, {}), target, [0.5], 1.0, [2], 0.3, addresses=2)
    first, last, loaded = bench.press(2000, None)
    assert first.load == last.load == 0
    assert loaded.load == 0.5
    assert loaded.offered_per_s == pytest.approx(0.5 * first.good_per_s, rel=0.5)
    assert loaded.others == {}
    assert loaded.share == pytest.approx(1, abs=0.3)
    assert loaded.rows is None


def test_a_server_that_answers_nothing_has_no_peak(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(overload, "_SETTLE_S", 0)
    monkeypatch.setattr(overload, "_LOOK_S", 0)
    server.statuses = [503] * 1000
    target = Target(server.url, SOME_REQUESTS)
    bench = Bench(Running(server.url, {}), target, [1], 0.1, [1], 0.1)
    with pytest.raises(ValueError, match="no request is answered within 500 ms"):
        bench.press(500, None)


def test_every_missed_promise_is_named():
    assert len(find_misses([replace(STEP, refusal_p99_ms=250.0)], SMALL)) == 5
    assert find_misses([replace(STEP, load=0.0)], SMALL) == []


def test_an_unknown_server_is_refused():
    assert list(choose([])) == ["babelgate"]
    with pytest.raises(ValueError, match="expected some of litserve"):
        choose(["nobody"])
