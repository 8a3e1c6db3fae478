"""The stack under stress: the evaluation of replies and samples, and missed targets."""

from dataclasses import replace

import pytest

from benchmarks.instruments import load
from benchmarks.instruments.generator import LoadReply, Request, Target
from benchmarks.measure import stress
from tests.benchmarks.conftest import Server
from tests.e2e.real_stack import wait_until

REPLIES = [
    LoadReply(0, "200", ended_s=0.2, latency_s=0.2, lag_s=0.001),
    LoadReply(1, "200", ended_s=1.0, latency_s=0.6, lag_s=0.0),
    LoadReply(2, "200", ended_s=2.1, latency_s=0.3, lag_s=0.0),
    LoadReply(3, "429", ended_s=0.3, latency_s=0.05, lag_s=0.0),
    LoadReply(4, "reset", ended_s=0.3, latency_s=0.01, lag_s=0.0),
]
SOME_REQUESTS = [Request(b"{}", "/translate")] * 5
LOAD = load.summarize("open", 10.0, 2.1, REPLIES)
STEP = replace(stress.summarize(REPLIES, 500, 2.0, LOAD), times=4.0, share=0.5)


def test_what_is_late_or_after_the_load_is_no_goodput():
    assert STEP.good_per_s == pytest.approx(0.5)
    assert STEP.late == 1
    assert STEP.refusal_p99_ms == pytest.approx(50)
    assert STEP.offered_per_s == pytest.approx(2.5)


def test_what_a_refusal_costs_is_found_among_what_answers_cost():
    loads = [
        replace(LOAD, answers=answers, statuses={"429": refused}, cpu_ms={"nginx": ms})
        for answers, refused, ms in (
            (100, 0, 1.0),
            (500, 400, 0.36),
            (950, 900, 23 / 95),
        )
    ]
    assert stress.find_refusal_cost(loads) == pytest.approx({"nginx": 0.2})
    assert stress.find_refusal_cost(loads[:1]) == {}


def test_a_server_is_pressed_at_multiples_of_its_peak(server, monkeypatch):
    monkeypatch.setattr(stress, "_LOOK_S", 0)
    target = Target(server.url, SOME_REQUESTS)
    bench = stress.Bench(target, 2000, [0.5], 1.0, [2], 0.3)
    first, last, loaded = bench.press(None)
    assert (first.times, last.times, loaded.times) == (0, 0, 0.5)
    assert loaded.figures.level == pytest.approx(0.5 * first.good_per_s)
    assert loaded.figures.statuses.keys() == {"200"}
    assert loaded.share


def test_a_server_that_answers_nothing_has_no_peak(server, monkeypatch):
    monkeypatch.setattr(stress, "_SETTLE_S", 0)
    monkeypatch.setattr(stress, "_LOOK_S", 0)
    server.statuses = [503] * 1000
    target = Target(server.url, SOME_REQUESTS)
    bench = stress.Bench(target, 500, [1], 0.1, [1], 0.1)
    with pytest.raises(ValueError, match="no request is answered within 500 ms"):
        bench.press(None)


MINUTES = range(100)


@pytest.mark.parametrize(
    ("values", "is_flat"),
    [
        pytest.param([100 + i / 10 for i in MINUTES], False, id="growing"),
        pytest.param(
            [min(100 + 5 * i, 170) for i in MINUTES], True, id="warming up at first"
        ),
        pytest.param([100.0] * 99 + [900.0], True, id="one outlier"),
    ],
)
def test_what_grows_is_not_flat(values: list[float], is_flat: bool):
    assert stress.find_trend("gateway", "ms", values).is_flat == is_flat


def test_what_is_not_as_expected_is_counted():
    pieces = stress.draw_medley(200)
    assert {piece.kind for piece in pieces} == set(stress.SHARES)
    replies = [LoadReply(n, p.status, 1.0, 0.1, 0.0) for n, p in enumerate(pieces)]
    surprises, latencies = stress.judge(pieces, replies)
    assert (surprises, latencies.p50_ms) == ({}, 100)
    surprises, _ = stress.judge(pieces, [LoadReply(0, "500", 1.0, 0.1, 0.0)])
    assert surprises == {f"{pieces[0].kind}: 500": 1}


def test_slow_clients_and_those_who_leave_come_beside_the_load(server: Server):
    pieces = stress.draw_medley(5)
    with stress.repeat(lambda: stress.ask_badly(server.url, pieces), 0.01):
        wait_until(lambda: len(server.asked) >= 3)
    assert all(body["tgt_lang"] for _, body in server.asked)
