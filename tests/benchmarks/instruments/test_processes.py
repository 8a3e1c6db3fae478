"""The costs of processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from benchmarks.instruments import processes


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
    assert processes.subtract(after, before) == {"gateway": 1.75}


def test_the_cost_is_that_of_each_program_and_the_cpu_of_their_client(
    idle: psutil.Process,
):
    result, spent = processes.measure_cpu({"gateway": idle}, lambda: "result")
    assert (result, set(spent)) == ("result", {"gateway", "client"})
    assert processes.measure_memory({"gateway": idle})["gateway"] > 0
