"""The soak's reading of its samples, and the mix that it sends."""

from __future__ import annotations

import threading

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
    trend = find_trend("gateway", "ms", list(enumerate(values)))
    assert trend
    assert trend.is_flat == is_flat
    assert find_trend("gateway", "ms", [(0.0, 1.0)] * 5) is None


def test_what_is_not_as_expected_is_counted():
    pieces = draw_medley(200)
    assert {piece.kind for piece in pieces} == set(SHARES)
    diary = Diary(pieces)
    for number, piece in enumerate(pieces):
        diary.keep(LoadReply(number, piece.status, 1.0, 0.1, 0.0))
    assert (diary.answers, diary.surprises) == (200, {})
    diary.keep(LoadReply(0, "500", 1.0, 0.1, 0.0))
    assert diary.surprises == {f"{pieces[0].kind}: 500": 1}


def test_slow_clients_and_those_who_leave_come_beside_the_load(server: Server):
    asked = threading.Event()
    pieces = draw_medley(5)
    with repeat(lambda: ask_badly(server.url, pieces), 0.01):
        while len(server.asked) < 3:
            asked.wait(0.05)
    assert all(body["tgt_lang"] for _, body in server.asked)
