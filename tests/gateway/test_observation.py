"""What `GET /metrics` looks up when it is asked: languages, queues, processes, GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.gateway.conftest import TASKS
from tests.gateway.test_telemetry import read

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


def test_every_language_says_whether_it_is_ready(client, torchserve):
    torchserve.loading.add("pt")
    torchserve.unregistered.add("en")
    metrics = read(client.get("/metrics").text)
    ready = {k[1]: v for k, v in metrics.items() if k[0] == "babelgate_language_ready"}
    assert ready == {"ko": 1, "en": 0, "zh": 1, "pt": 0}


def test_every_task_says_whether_it_is_ready(client, torchserve):
    torchserve.loading |= {"pt", "captioning"}
    torchserve.unregistered.add("classification")
    metrics = read(client.get("/metrics").text)
    ready = {k[1]: v for k, v in metrics.items() if k[0] == "babelgate_task_ready"}
    assert ready == {
        "translation": 0,  # into pt
        "captioning": 0,
        "classification": 0,
        "detection": 1,
    }


def test_queue_and_batch_size_are_those_of_registered_models(client, torchserve):
    torchserve.unregistered.add("en")
    torchserve.queued = 7
    metrics = read(client.get("/metrics").text)
    for name, value in (("babelgate_queued_rows", 7), ("babelgate_batch_size", 64)):
        found = {key[1]: value for key, value in metrics.items() if key[0] == name}
        assert found == dict.fromkeys(("ko", "zh", "pt", *TASKS), value)


def test_rows_that_wait_in_the_gateway_are_counted(client):
    metrics = read(client.get("/metrics").text)
    models = {key[1] for key in metrics if key[0] == "babelgate_waiting_rows"}
    assert models == {"ko", "en", "zh", "pt", *TASKS}


def test_without_torchserve_no_language_is_ready(make_client):
    metrics = read(
        make_client(management_url="http://127.0.0.1:9").get("/metrics").text
    )
    assert metrics["babelgate_language_ready", "ko"] == 0
    assert ("babelgate_queued_rows", "ko") not in metrics


def test_memory_is_that_of_a_programs_whole_group(
    make_client, start_group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BABELGATE_RUN_DIR", str(tmp_path))
    nginx, torchserve = start_group("nginx"), start_group("torchserve")
    (tmp_path / "registrar.group").write_text("")  # it is being written
    (tmp_path / "gateway.group").write_text('{"group": 4194305, "since": 1.5}')
    metrics = read(make_client().get("/metrics").text)
    memory = {k[1]: v for k, v in metrics.items() if k[0] == "babelgate_memory_bytes"}
    assert set(memory) == {"nginx", "torchserve", "workers"}
    assert memory["nginx"] > nginx.memory_info().rss > 0
    assert memory["torchserve"] > torchserve.memory_info().rss
    assert 0 < memory["workers"] < memory["torchserve"]
    assert metrics["babelgate_start_time_seconds", "nginx"] == nginx.create_time()
    assert metrics["babelgate_start_time_seconds", "gateway"] == 1.5


def test_where_nothing_was_recorded_no_process_is_measured(client):
    assert "babelgate_memory_bytes" not in client.get("/metrics").text


def test_the_memory_of_gpus_is_shown(
    client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "0, 300, 81559"\necho "1, [N/A], [N/A]"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    metrics = read(client.get("/metrics").text)
    assert metrics["babelgate_gpu_memory_used_bytes", "0"] == 300 << 20
    assert metrics["babelgate_gpu_memory_bytes", "0"] == 81559 << 20
    assert ("babelgate_gpu_memory_bytes", "1") not in metrics
