"""What the soak makes of its samples, and the mix that it sends."""

from __future__ import annotations

import threading
from collections import Counter

import psutil
import pytest

from benchmarks.instruments.generator import Manner, Reply, Target, ask_again
from benchmarks.instruments.processes import Holding, measure_holdings
from benchmarks.measure.medley import SHARES, draw_medley, visit
from benchmarks.measure.soak import (
    Diary,
    Sample,
    chart,
    describe,
    find_trends,
    list_series,
    tabulate,
)
from benchmarks.measure.trend import Series, find_trend
from tests.benchmarks.conftest import Server

pytestmark = pytest.mark.slow

MINUTES = range(100)


def series(values: list[float]) -> Series:
    return Series("gateway", "MB", list(enumerate(values)))


@pytest.mark.parametrize(
    ("values", "is_flat"),
    [
        pytest.param([100.0 for _ in MINUTES], True, id="still"),
        pytest.param([100 + 5 * (i % 2) for i in MINUTES], True, id="up and down"),
        pytest.param([100 + i / 10 for i in MINUTES], False, id="growing"),
        pytest.param([100 - i / 2 for i in MINUTES], True, id="shrinking"),
        pytest.param(
            [min(100 + 5 * i, 170) for i in MINUTES], True, id="warming up at first"
        ),
        pytest.param([100.0] * 99 + [900.0], True, id="one outlier"),
    ],
)
def test_what_grows_is_not_flat(values: list[float], is_flat: bool):
    trend = find_trend(series(values), slack=0.5)
    assert trend
    assert trend.is_flat == is_flat


def test_a_trend_has_its_slope_and_change():
    trend = find_trend(series([100 + i / 10 for i in MINUTES]), slack=0.5)
    assert trend
    assert trend.slope_per_hour == pytest.approx(360)
    assert trend.change == pytest.approx((trend.last - trend.first) / trend.first)


def test_little_of_something_small_is_no_growth():
    values = [5.0] * 60 + [6.0] * 40
    still, grown = (find_trend(series(values), slack) for slack in (2.0, 0.5))
    assert still
    assert grown
    assert (still.is_flat, grown.is_flat) == (True, False)


def test_few_samples_have_no_trend():
    assert find_trend(series([1.0] * 5), slack=1.0) is None


def make_samples(files: list[int]) -> list[Sample]:
    return [
        Sample(10.0 * i, {"nginx": Holding(10, 12, count, 3)}, 100.0, 200.0)
        for i, count in enumerate(files)
    ]


def test_every_measure_of_every_program_has_a_row_and_a_line():
    samples = make_samples([30 + i for i in range(40)])
    trends = find_trends(samples)
    rows = {(row[0], row[1]): row[-1] for row in tabulate(trends).rows}
    assert rows == {
        ("nginx", "PSS MB"): "yes",
        ("nginx", "RSS MB"): "yes",
        ("nginx", "files"): "no",
        ("nginx", "threads"): "yes",
        ("p50", "ms"): "yes",
        ("p95", "ms"): "yes",
    }
    assert len(list_series(samples)) == len(rows)
    assert [picture.title for picture in chart(samples)] == [
        *("PSS MB", "RSS MB", "files", "threads", "ms")
    ]


def test_what_is_not_as_expected_is_said():
    pieces = draw_medley(50)
    diary = Diary(pieces)
    for number, piece in enumerate(pieces):
        diary.keep(Reply(number, piece.status, 1.0, 0.1, 0.0))
    assert describe(diary, []) == [
        "50 answers; not as expected: none",
        "Everything is flat.",
    ]
    diary.keep(Reply(0, "500", 1.0, 0.1, 0.0))
    assert f"1 x {pieces[0].kind}: 500" in describe(diary, [])[0]
    grown = find_trends(make_samples(list(range(40))))
    assert describe(diary, grown)[1].startswith("nginx, files: grown by ")


def test_latencies_are_those_since_the_last_look():
    diary = Diary([piece for piece in draw_medley(50) if piece.kind == "sentence"])
    diary.keep(Reply(0, "200", 1.0, 0.1, 0.0))
    diary.sample(10.0, {})
    diary.sample(20.0, {})
    assert [sample.p50_ms for sample in diary.samples] == [100.0, None]


def test_a_medley_has_requests_of_every_kind():
    pieces = draw_medley(200, ["fr"])
    assert set(Counter(piece.kind for piece in pieces)) == set(SHARES)
    assert all((piece.status == "200") != (piece.kind == "mistake") for piece in pieces)
    assert pieces == draw_medley(200, ["fr"])


def test_a_medley_is_asked(server: Server):
    pieces = [piece for piece in draw_medley(20) if piece.status == "200"]
    target = Target(server.url, [piece.request for piece in pieces])
    manner = Manner(None, patience_s=30)
    replies = ask_again(target, manner, clients=4, seconds=0.5, pause_s=0)
    assert {reply.status for reply in replies} == {"200"}


def test_slow_clients_and_those_who_leave_come_beside_the_load(server: Server):
    asked = threading.Event()
    with visit(server.url, draw_medley(5, ["fr"]), 0.01):
        while len(server.asked) < 3:
            asked.wait(0.05)
    assert all(body["tgt_lang"] for _, body in server.asked)


def test_what_a_process_holds_is_measured():
    held = measure_holdings({"this": psutil.Process()})
    assert set(held) == {"this", "supervisord"}
    assert held["this"].rss_mb >= held["this"].pss_mb > 1
    assert held["this"].files > 3
    assert held["this"].threads >= 1
