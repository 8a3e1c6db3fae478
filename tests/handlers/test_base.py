"""TorchServe's contract: always one answer per row, each with its own status."""

import json
import logging
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from contract import rows
from contract.problems import TITLES
from handlers.base import (
    ModelConfig,
    Outcome,
    ReloadableHandler,
    Result,
    Row,
    TaskError,
    TaskHandler,
)
from handlers.engine.errors import DeviceFault
from tests.handlers.fakes import Answer, FakeMetrics, ask, make_context


class Doubling(TaskHandler[int]):
    """A handler that doubles numbers. It refuses negative ones, cannot read 13, is busy for 5,
    fails on 666, breaks the device on 999, and returns one result too few if a row is 404."""

    def __init__(self) -> None:
        self.config: ModelConfig | None = None
        self.batches: list[list[int]] = []
        self.deadlines: list[float] = []

    def load_model(self, config: ModelConfig) -> None:
        self.config = config

    def preprocess(self, row: Row) -> int:
        number = row.read_json()
        if number == 13:
            raise KeyError("a bug, about 13")
        if not isinstance(number, int) or number < 0:
            raise TaskError("invalid-request", "too little", limit=0)
        return number + int(row.parameters.get("plus", 0))

    def infer(self, items: Sequence[int], deadline: float) -> Outcome:
        self.batches.append(list(items))
        self.deadlines.append(deadline)
        if 666 in items:
            raise RuntimeError("an error about 666")
        if 999 in items:
            raise DeviceFault("CUDA error: an illegal address\nabout 999")
        busy = TaskError("out-of-memory", "not now")
        doubled: list[Result] = [
            busy if item == 5 else {"doubled": 2 * item} for item in items
        ]
        given = doubled[1:] if 404 in items else doubled
        return Outcome(given, {"BabelgateTokens": sum(items)})


def results(answers: Sequence[Answer]) -> list[int]:
    """The doubled number of each answer, or its status if it has none."""
    return [answer.content.get("doubled", answer.status) for answer in answers]


def milliseconds(from_now_s: float) -> str:
    return str(int((time.monotonic() + from_now_s) * 1000))


@pytest.fixture
def doubling() -> Doubling:
    """A loaded handler whose `config` is reset to None."""
    handler = Doubling()
    handler.start(ModelConfig(Path(), None, {}))
    handler.config = None
    return handler


def test_every_row_gets_its_own_answer_in_order(doubling: Doubling):
    answers = ask(doubling, [b"1", b"-1", b"{", b"2", b"5", b"3"])
    assert results(answers) == [2, 422, 400, 4, 503, 6]
    assert doubling.batches == [[1, 2, 5, 3]]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"body": b"21"}, id="bytes"),
        pytest.param({"body": bytearray(b"21")}, id="bytearray"),
        pytest.param({"body": "21"}, id="text"),
        pytest.param({"body": 21}, id="decoded by TorchServe"),
        pytest.param({"data": b"21"}, id="a form's field"),
        pytest.param({"body": None, "data": b"21"}, id="a form's field, no body"),
        pytest.param({"body": "21".encode("utf-16")}, id="UTF-16"),
    ],
)
def test_a_body_is_read_in_every_form(doubling: Doubling, row: dict[str, Any]):
    (body,) = doubling.handle([row], make_context())
    assert json.loads(body) == {"doubled": 42}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"a": 1} x', b"\xff\xfe\x00", "한국", b"[" * 100_000, b"9" * 5000],
    ids=["empty", "cut", "more", "no encoding", "text", "too deep", "too long"],
)
def test_a_body_that_is_not_json_is_400_and_alone(doubling: Doubling, body: Any):
    answers = ask(doubling, [b"1", body, b"2"])
    assert results(answers) == [2, 400, 4]
    assert answers[1].content["type"] == "urn:babelgate:malformed-json"


@pytest.mark.parametrize("poison", [666, 404], ids=["raises", "answers too little"])
def test_a_row_that_breaks_the_batch_is_found_by_halves(doubling, poison):
    for place in (0, 20, 63):
        numbers = [*range(100, 164)]
        numbers[place] = poison
        doubling.batches.clear()
        answers = ask(doubling, [str(number).encode() for number in numbers])
        expected = [500 if number == poison else 2 * number for number in numbers]
        assert results(answers) == expected
        assert len(doubling.batches) == 1 + 2 * 6


def test_every_phrase_is_one_line_of_ascii(doubling: Doubling):
    """A phrase with more bytes than characters breaks TorchServe's frame for the batch."""
    late = {0: {rows.DEADLINE: milliseconds(-1)}}
    bodies = [b"1", b"-1", b"{", b"5", b"13", b"666"]
    answers = ask(doubling, bodies, late)
    assert [answer.status for answer in answers] == [504, 422, 400, 503, 500, 500]
    for answer in answers:
        assert answer.phrase.isascii()
        assert answer.phrase.isprintable()
        assert answer.phrase == TITLES[answer.status]


def test_the_log_says_how_many_rows_failed_and_not_why(doubling, caplog):
    with caplog.at_level(logging.DEBUG):
        assert results(ask(doubling, [b"666", b"13"])) == [500, 500]
    assert caplog.messages == [
        "reading a row failed with KeyError",
        "a batch of 1 rows failed with RuntimeError",
    ]
    assert "about" not in caplog.text


def test_a_device_that_fails_ends_the_worker(doubling, caplog, monkeypatch):
    """TorchServe would otherwise keep sending batches to it."""
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit, match="^1$"):
        ask(doubling, [b"1", b"999"])
    assert doubling.batches == [[1, 999]]
    assert caplog.messages == [
        "the device failed, this worker exits: CUDA error: an illegal address"
    ]


def test_what_a_worker_logs_goes_where_torchserve_keeps_it(doubling, capsys):
    """The log goes to stderr: TorchServe drops log lines from stdout."""
    for _ in range(2):
        initialize(doubling, "cpu", None)
    ask(doubling, [b"666"])
    said = "a batch of 1 rows failed with RuntimeError\n"
    assert capsys.readouterr() == ("", said)


def test_a_batch_is_counted_with_one_line_per_metric(doubling: Doubling):
    late, waited = {rows.DEADLINE: milliseconds(-1)}, {rows.SENT: milliseconds(-20)}
    headers, metrics = {0: late, 1: waited, 3: waited}, FakeMetrics()
    ask(doubling, [b"1", b"2", b"-3", b"5", b"666"], headers, metrics=metrics)
    assert metrics.calls == 6
    counters = metrics.counters
    assert counters["BabelgateBatches"] == 1
    assert counters["BabelgateRows"] == 5
    assert counters["BabelgateDroppedRows"] == 1
    assert counters["BabelgateTokens"] == 7  # of all halves that succeeded
    assert counters["BabelgateComputeMs"] >= 0
    assert 40_000 <= counters["BabelgateQueueMs"] < 600_000


@pytest.mark.parametrize("header", ["-4e6", "1e300", "-1e300"])
def test_a_row_that_was_sent_long_ago_or_later_has_not_waited(doubling, header):
    metrics = FakeMetrics()
    ask(doubling, [b"1"], {0: {rows.SENT: header}}, metrics=metrics)
    assert metrics.counters["BabelgateQueueMs"] == 0


@pytest.mark.parametrize("header", ["", "soon", "²", "nan", "inf", "-", "9" * 5000])
def test_a_time_that_is_no_number_is_none(doubling: Doubling, header: str):
    headers = {0: {rows.SENT: header, rows.DEADLINE: header}}
    metrics = FakeMetrics()
    assert results(ask(doubling, [b"1", b"2"], headers, metrics=metrics)) == [2, 4]
    assert metrics.counters["BabelgateQueueMs"] == 0


def test_metrics_that_fail_cost_no_batch(doubling, caplog):
    answers = ask(doubling, [b"1", b"2"], metrics=FakeMetrics(is_broken=True))
    assert results(answers) == [2, 4]
    assert caplog.messages == ["counting a batch failed with ValueError"]


def initialize(handler: Doubling, devices: str, gpu: int | None) -> None:
    options = {"devices": devices.split(","), "model_path": "/models/m2m", "x": 1}
    handler.initialize(make_context(config={"handler": options}, gpu=gpu))


@pytest.mark.parametrize(("device", "gpu"), [("cpu", None), ("0", 0), ("0,2", 2)])
def test_a_handler_is_set_up_on_the_maps_device(doubling, device, gpu):
    initialize(doubling, device, gpu)
    assert doubling.config is not None
    assert doubling.config.gpu == gpu
    assert str(doubling.config.directory) == "/models/m2m"
    assert doubling.config.options["x"] == 1


@pytest.mark.parametrize(
    ("device", "gpu", "says"),
    [
        pytest.param("0", None, "to 0, TorchServe to cpu", id="fell to the CPU"),
        pytest.param("1,2", 0, "to 1, 2, TorchServe to 0", id="another GPU"),
        pytest.param("cpu", 0, "to cpu, TorchServe to 0", id="GPU unasked"),
    ],
)
def test_another_device_is_refused_and_logged(doubling, device, gpu, says, capsys):
    with pytest.raises(RuntimeError, match=says):
        initialize(doubling, device, gpu)
    assert doubling.config is None
    assert says in capsys.readouterr().err  # TorchServe's own log has no reason


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
    doubling, monkeypatch
):
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    ask(doubling, [b"1"])  # takes 10 s
    soon = {0: {rows.DEADLINE: milliseconds(8)}, 1: {rows.DEADLINE: milliseconds(20)}}
    assert results(ask(doubling, [b"2", b"3", b"4"], soon)) == [504, 6, 8]
    alone = [results(ask(doubling, [b"2"], soon)) for _ in range(3)]
    assert alone == [[504], [504], [4]]  # after as many batches, one is tried again


def test_a_row_that_nobody_waits_for_does_not_reach_the_model(tmp_path, monkeypatch):
    monkeypatch.setenv("BABELGATE_RUN_DIR", str(tmp_path))
    handler = Doubling()
    handler.start(ModelConfig(Path(), None, {}))
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


def test_an_empty_batch_unloads_a_model_and_the_next_one_loads_it_again():
    loaded: list[Doubling] = []
    left_s: list[float] = []

    def start() -> Doubling:
        handler = Doubling()
        if loaded:
            left_s.append(model.load_left_s)
        handler.start(ModelConfig(Path(), None, {}))
        loaded.append(handler)
        return handler

    model = ReloadableHandler(start)
    rows = [Row(b"1", sent_at=time.monotonic()), Row(b"-1"), Row(b"2")]
    assert model.answer(rows).results[::2] == [{"doubled": 2}, {"doubled": 4}]
    assert (len(loaded), model.load_left_s) == (1, 0)
    assert model.answer([]) == Outcome([], {})
    assert model.load_left_s == 1
    late, refused, unknown = model.answer(rows).results
    assert isinstance(late, dict)
    assert late.pop("loading_ms") > 0
    assert (late, unknown) == ({"doubled": 2}, {"doubled": 4})
    assert isinstance(refused, TaskError)
    assert (len(loaded), model.load_left_s) == (2, 0)
    assert 0 < left_s[0] < 1
    model.answer([])
    assert model.load_left_s < 1, "it does not know how long loading takes"
    now = Row(b"1", sent_at=time.monotonic() + 60)
    assert model.answer([now]).results == [{"doubled": 2}]
