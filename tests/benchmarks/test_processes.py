"""What processes cost."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from benchmarks.load import Load, summarize
from benchmarks.processes import divide, measure_cost, subtract

IDLE = "import sys; sys.stdin.read()"


def test_cpu_is_what_came_since():
    before = {"gateway": {1: 10.0, 2: 5.0}}
    after = {"gateway": {1: 11.0, 2: 5.5, 3: 0.25}}
    assert subtract(after, before) == {"gateway": 1.75}


def test_a_process_that_has_gone_takes_nothing_back():
    assert subtract({"gateway": {1: 2.0}}, {"gateway": {1: 1.0, 2: 9.0}}) == {
        "gateway": 1.0
    }


def test_cpu_is_told_per_answer():
    assert divide({"nginx": 2.0}, 1000) == {"nginx": pytest.approx(2.0)}
    assert divide({"nginx": 2.0}, 0) == {"nginx": pytest.approx(2000)}


def measure_nothing() -> Load:
    return summarize("closed", 1, 1.0, [])


def test_a_load_gets_the_cost_of_each_program_and_the_cpu_of_its_client():
    with subprocess.Popen([sys.executable, "-c", IDLE], stdin=subprocess.PIPE) as idle:
        leaders = {"gateway": psutil.Process(idle.pid)}
        load = measure_cost(leaders, measure_nothing)
        assert idle.stdin
        idle.stdin.close()
    assert set(load.cpu_ms) == {"gateway", "client"}
    assert load.memory_mb["gateway"] > 0


def test_workers_are_counted_apart_from_torchserve():
    with subprocess.Popen([sys.executable, "-c", IDLE], stdin=subprocess.PIPE) as idle:
        leaders = {"torchserve": psutil.Process(idle.pid)}
        load = measure_cost(leaders, measure_nothing)
        assert idle.stdin
        idle.stdin.close()
    assert set(load.memory_mb) == {"torchserve", "workers"}
    assert load.memory_mb["workers"] == 0
