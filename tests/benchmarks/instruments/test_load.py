"""The resource costs of processes, and the counters of workers."""

import psutil
import pytest
import requests

from benchmarks.instruments import load
from benchmarks.instruments.load import WorkerFigures, describe_workers, read_counters


def test_cpu_is_what_came_since(monkeypatch: pytest.MonkeyPatch):
    clocks = [{"gateway": {1: 11.0, 2: 5.5, 3: 0.25}}, {"gateway": {1: 10.0, 2: 5.0}}]
    monkeypatch.setattr(load, "_read_clock", lambda _: clocks.pop())
    with load.measure_cpu({}) as spent:
        assert spent == {}
    assert spent == {"gateway": 1.75}


def test_the_cost_is_that_of_each_program_and_the_cpu_of_their_client():
    leaders = {"gateway": psutil.Process()}
    with load.measure_cpu(leaders) as spent:
        pass
    assert set(spent) == {"gateway", "client"}
    assert load.measure_memory(leaders)["gateway"] > 0


def test_a_program_that_crashes_under_the_load_has_no_cost():
    with psutil.Popen(["sleep", "60"]) as program:
        leaders = {"torchserve": psutil.Process(program.pid)}
        with load.measure_cpu(leaders) as spent:
            program.kill()
            program.wait()
    assert set(spent) == {"client"}
    assert load.measure_memory(leaders) == {}


def test_processes_that_end_while_they_are_counted_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    with psutil.Popen(["sleep", "60"]) as program:
        ended = psutil.Process(program.pid)
        program.kill()
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [ended])
    held = load.measure_holdings({"torchserve": psutil.Process(), "nginx": ended})
    assert held["torchserve"]["MB"] > 0
    assert held["workers"]["MB"] == held["nginx"]["MB"] == 0


def test_figures_are_of_what_was_counted_in_between():
    before = {"batches": 10, "rows": 100, "queuems": 5000}
    after = {"batches": 14, "rows": 140, "queuems": 9000, "computems": 200}
    expected = WorkerFigures(batch_fill=10, queue_ms=100, handler_ms=50)
    assert describe_workers(before, after) == expected


def test_counters_are_added_up_over_the_models(monkeypatch):
    page = requests.Response()
    page.status_code = 200
    page._content = b"""
BabelgateRows_total{ModelName="fr",Level="Model"} 60
BabelgateRows_total{ModelName="de",Level="Model"} 4
QueueTime{Level="Host"} 3
babelgate_waiting_rows{model="fr"} NaN
"""
    monkeypatch.setattr(requests, "get", lambda url, timeout: page)
    assert read_counters("http://127.0.0.1") == {"rows": 64}
