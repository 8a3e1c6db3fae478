"""The metrics of the stack's programs and the machine's GPUs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import requests

from deploy import monitoring
from tests.gateway.metrics.test_registry import read

Read = Callable[[], dict[tuple[str, ...], float]]

#: A program that starts two others, one called java; all three end with its input.
FAMILY = """
import subprocess, sys
for program in (sys.argv[1], "/bin/cat"):
    subprocess.Popen([program], stdin=subprocess.PIPE)
print("started", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start_group(tmp_path: Path) -> Iterator[Callable[[str], psutil.Process]]:
    """Starts a family of processes and records it as a program of the stack."""
    (tmp_path / "java").symlink_to("/bin/cat")
    with ExitStack() as running:

        def start(program: str) -> psutil.Process:
            leader = running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", FAMILY, str(tmp_path / "java")],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            )
            assert leader.stdout
            assert leader.stdout.readline() == b"started\n"
            process = psutil.Process(leader.pid)
            record = {"group": leader.pid, "since": process.create_time()}
            (tmp_path / f"{program}.group").write_text(json.dumps(record))
            return process

        yield start


@pytest.fixture
def scrape(tmp_path: Path) -> Iterator[Read]:
    server = monitoring.serve(tmp_path, 0)
    url = f"http://127.0.0.1:{server.server_port}/metrics"
    yield lambda: read(requests.get(url, timeout=30).text)
    server.shutdown()
    server.server_close()


def test_memory_is_that_of_a_programs_whole_group(
    scrape: Read, start_group: Callable[[str], psutil.Process], tmp_path: Path
):
    nginx, torchserve = start_group("nginx"), start_group("torchserve")
    (tmp_path / "registrar.group").write_text("")  # it is being written
    (tmp_path / "gateway.group").write_text('{"group": 4194305, "since": 1.5}')
    metrics = scrape()
    memory = {k[1]: v for k, v in metrics.items() if k[0] == "babelgate_memory_bytes"}
    assert set(memory) == {"nginx", "torchserve", "workers"}
    assert memory["nginx"] > nginx.memory_info().rss > 0
    assert memory["torchserve"] > torchserve.memory_info().rss
    assert 0 < memory["workers"] < memory["torchserve"]
    assert metrics["babelgate_start_time_seconds", "nginx"] == nginx.create_time()
    assert metrics["babelgate_start_time_seconds", "gateway"] == 1.5


def test_the_memory_of_gpus_is_shown(
    scrape: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "0, 300, 81559"\necho "1, [N/A], [N/A]"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert scrape() == {
        ("babelgate_gpu_memory_used_bytes", "0"): 300 << 20,
        ("babelgate_gpu_memory_bytes", "0"): 81559 << 20,
    }


def test_a_taken_port_is_told(tmp_path: Path):
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(OSError, match="in use"),
    ):
        monitoring.serve(tmp_path, other.getsockname()[1])
