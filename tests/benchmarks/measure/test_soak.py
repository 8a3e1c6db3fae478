"""The soak's reading of its samples, and the mix that it sends."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from benchmarks.instruments.generator import LoadReply
from benchmarks.measure.soak import (
    SHARES,
    Diary,
    ask_badly,
    draw_medley,
    find_trend,
    repeat,
)
from tests.benchmarks.conftest import Server

pytestmark = pytest.mark.slow

MINUTES = range(100)


def find(values: list[float], unit: str = "ms"):
    return find_trend("gateway", unit, list(enumerate(values)))


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
    trend = find(values)
    assert trend
    assert trend.is_flat == is_flat


def test_what_is_not_as_expected_is_counted():
    pieces = draw_medley(50)
    diary = Diary(pieces)
    for number, piece in enumerate(pieces):
        diary.keep(LoadReply(number, piece.status, 1.0, 0.1, 0.0))
    assert (diary.answers, diary.surprises) == (50, {})
    diary.keep(LoadReply(0, "500", 1.0, 0.1, 0.0))
    assert diary.surprises == {f"{pieces[0].kind}: 500": 1}


def test_a_medley_has_requests_of_every_kind():
    pieces = draw_medley(200, ["fr"])
    assert set(Counter(piece.kind for piece in pieces)) == set(SHARES)
    assert all((piece.status == "200") != (piece.kind == "mistake") for piece in pieces)
    assert pieces == draw_medley(200, ["fr"])


def test_slow_clients_and_those_who_leave_come_beside_the_load(server: Server):
    asked = threading.Event()
    pieces = draw_medley(5, ["fr"])
    with repeat(lambda: ask_badly(server.url, pieces), 0.01):
        while len(server.asked) < 3:
            asked.wait(0.05)
    assert all(body["tgt_lang"] for _, body in server.asked)


def test_few_samples_have_no_trend():
    assert find([1.0] * 5) is None
