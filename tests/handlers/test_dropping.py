"""Rows that come too late, or that nobody waits for, do not reach the model."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from contract import rows
from handlers.base import ModelConfig
from tests.handlers.doubling import Doubling, milliseconds, results
from tests.handlers.fakes import ask


def test_a_row_whose_deadline_has_passed_is_504_without_the_model(doubling: Doubling):
    headers = {
        0: {rows.DEADLINE: milliseconds(-1)},
        1: {rows.DEADLINE: milliseconds(60)},
    }
    answers = ask(doubling, [b"1", b"2", b"3"], headers)
    assert results(answers) == [504, 4, 6]
    assert answers[0].content["type"] == "urn:babelgate:deadline"
    assert doubling.batches == [[2, 3]]


def test_a_row_that_could_not_be_done_in_time_does_not_reach_the_model(
    doubling: Doubling, monkeypatch: pytest.MonkeyPatch
):
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    ask(doubling, [b"1"])  # takes 10 s
    soon = {0: {rows.DEADLINE: milliseconds(8)}, 1: {rows.DEADLINE: milliseconds(20)}}
    assert results(ask(doubling, [b"2", b"3", b"4"], soon)) == [504, 6, 8]


def test_a_row_that_nobody_waits_for_does_not_reach_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BABELGATE_RUN_DIR", str(tmp_path))
    handler = Doubling()
    handler.start(ModelConfig(Path(), "cpu", 0, {}))
    numbers = {i: {rows.NUMBER: str(i)} for i in range(4)}
    assert results(ask(handler, [b"1", b"2"], numbers)) == [2, 4]  # no gateway yet
    (tmp_path / "admission").mkdir()
    (tmp_path / "admission" / "rows").write_bytes(b"\0\1\0")
    answers = ask(handler, [b"1", b"2", b"3", b"4", b"6"], numbers)
    assert results(answers) == [410, 4, 410, 8, 12]


def test_a_batch_knows_when_its_last_row_is_late(doubling: Doubling):
    ask(doubling, [b"1"], {0: {rows.DEADLINE: "9000000000"}})
    ask(doubling, [b"1", b"2"], {0: {rows.DEADLINE: "9000000000"}})
    assert doubling.deadlines == [9_000_000, math.inf]


def test_a_batch_that_is_late_as_a_whole_does_not_reach_the_model(doubling: Doubling):
    late = {rows.DEADLINE: milliseconds(-1)}
    assert results(ask(doubling, [b"1", b"2"], {0: late, 1: late})) == [504, 504]
    assert doubling.batches == []


@pytest.mark.parametrize("header", ["", "soon", "²", "nan", "9" * 5000, "-"])
def test_a_deadline_that_is_no_number_is_none(doubling: Doubling, header: str):
    answers = ask(doubling, [b"1", b"2"], {0: {rows.DEADLINE: header}})
    assert results(answers) == [2, 4]
