"""What processes cost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from benchmarks.instruments.processes import (
    divide,
    measure_cpu,
    measure_memory,
    subtract,
)


@pytest.fixture
def idle() -> Iterator[psutil.Process]:
    """A process that does nothing."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield psutil.Process(process.pid)
        assert process.stdin
        process.stdin.close()


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


def test_the_cost_is_that_of_each_program_and_the_cpu_of_their_client(
    idle: psutil.Process,
):
    result, spent = measure_cpu({"gateway": idle}, lambda: "result")
    assert (result, set(spent)) == ("result", {"gateway", "client"})
    assert measure_memory({"gateway": idle})["gateway"] > 0


def test_workers_are_counted_apart_from_torchserve(idle: psutil.Process):
    memory = measure_memory({"torchserve": idle})
    assert set(memory) == {"torchserve", "workers"}
    assert memory["workers"] == 0
