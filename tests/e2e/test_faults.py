"""The faults that a running stack survives: edited maps, full disks, stops and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
import requests

from benchmarks.instruments.running import claim_port_offset
from deploy.launch import is_alive
from deploy.stack import Stack
from deploy.supervision import Supervision
from deploy.watch import BOUNDS
from tests.e2e.real_stack import is_ready, operate, processes, start_stack, wait_until
from tests.programs import spawn

pytestmark = pytest.mark.faults

EN_DE = {"src_lang": "en", "src_text": "Good morning", "tgt_lang": "de"}
SMALL = {"cuda_id": {"de": "cpu"}}
#: Enough requests that their log lines overflow a pipe.
REQUESTS = 1000
CLIENTS = 8
#: The size of the file system that is filled, in megabytes.
DISK_MB = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system that can be filled and made read-only; without root, a plain folder."""
    path = tmp_path_factory.mktemp("disk")
    if os.geteuid() == 0:
        options = ["-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "none"]
        subprocess.run(["mount", *options, path], check=True)
    yield path
    if os.geteuid() == 0:
        subprocess.run(["umount", "--lazy", path], check=True)


@pytest.fixture(scope="module")
def small(folder: Path, cache: Path) -> Iterator[Stack]:
    """A stack of one language, with a map that tests may break."""
    with start_stack(folder / "run", cache, content=SMALL) as started:
        yield started


@pytest.fixture
def up(small: Stack, cache: Path) -> Callable[..., str]:
    """A function that runs `make up` again and returns its output."""
    options = ("--map", str(small.map), "--port-offset", str(small.port_offset))
    return partial(operate, small.run, cache, "up", *options)


def translate(stack: Stack) -> int:
    return requests.post(stack.url, json=EN_DE, timeout=60).status_code


def replace_gateway_worker(stack: Stack) -> None:
    """Kill a worker, and wait until another has been forked and answers."""
    master = stack.find_leader("gateway")
    before = master.children()
    before[0].kill()
    before[0].wait(60)
    wait_until(lambda: len(master.children()) == len(before))
    wait_until(lambda: is_ready(stack.url))


def test_an_edited_map_changes_nothing_before_up(small: Stack):
    original = small.map.read_text("utf-8")
    small.map.write_text('{"cuda_id": {"fr": "cpu"}}')
    try:
        replace_gateway_worker(small)
        assert {translate(small) for _ in range(20)} == {200}
        listed = requests.get(f"{small.url}/languages", timeout=60).json()
    finally:
        small.map.write_text(original)
    assert [language["code"] for language in listed] == ["de"]


def test_up_stops_nothing_before_all_is_ready_for_it(small, cache, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    running = {process.pid for process in processes(small)}
    frozen = small.frozen_map.read_text()
    other = small.run.parent / "other.json"
    other.write_text(json.dumps(SMALL | {"translation": {"model": "no/such"}}))
    said = operate(small.run, cache, "up", "--map", str(other), expect=1)
    assert "cannot be reached" in said
    assert running <= {process.pid for process in processes(small)}
    assert small.frozen_map.read_text() == frozen
    assert translate(small) == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_full_disk_does_not_stop_nginx(small: Stack, folder: Path):
    def ask(_: int) -> int:
        return requests.get(f"{small.url}/healthz", timeout=60).status_code

    filler, log = folder / "filler", small.log("nginx")
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 12)):
            pass
    try:
        with ThreadPoolExecutor(CLIENTS) as clients:
            assert {*clients.map(ask, range(REQUESTS))} == {200}
        replace_gateway_worker(small)
        assert {translate(small) for _ in range(20)} == {200}
    finally:
        filler.unlink()
    before = log.stat().st_size
    # nginx does not log for a second after a failed write.
    wait_until(lambda: translate(small) == 200 and log.stat().st_size > before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_read_only_run_directory_is_told_and_what_runs_goes_on(
    small, folder, cache, tmp_path
):
    read_only = tmp_path / "ro"
    read_only.mkdir()
    subprocess.run(["mount", "--bind", folder, read_only], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", read_only], check=True)
    try:
        said = operate(read_only / "new", cache, "up", expect=1)
    finally:
        subprocess.run(["umount", read_only], check=True)
    told = f"{read_only}/new cannot be written: Read-only file system."
    assert told in " ".join(said.split())
    assert "--run-dir" in said
    assert translate(small) == 200


def test_a_log_that_has_grown_is_rotated_while_the_stack_runs(small: Stack):
    log, size = small.log("registrar"), BOUNDS["registrar"][0]
    os.truncate(log, size)
    older = log.with_name("registrar.log.1")
    wait_until(lambda: older.exists() and log.stat().st_size < size)
    assert older.stat().st_size >= size
    older.unlink()


def test_up_converts_a_damaged_model_anew(small, cache, up):
    (weights,) = cache.glob("ctranslate2/*/int8/model.bin")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    said = up()
    assert "is damaged (model.bin has different content): converting the model" in said
    content[len(content) // 2] ^= 1
    assert weights.read_bytes() == content
    assert translate(small) == 200


def test_what_the_unit_watches_is_supervisord_and_up_recovers_from_its_end(small, up):
    # The process of the unit's PIDFile=, and of Restart=.
    supervisord = psutil.Process(int((small.run / "supervisord.pid").read_text()))
    assert "supervisord" in " ".join(supervisord.cmdline())
    supervisord.kill()
    wait_until(lambda: not is_alive(supervisord))
    assert translate(small) == 200
    up()
    assert translate(small) == 200


def test_ctrl_c_while_it_starts_leaves_nothing(tmp_path: Path, cache: Path):
    (tmp_path / "map.json").write_text(json.dumps(SMALL))
    run = tmp_path / "run"
    options = ["--map", str(tmp_path / "map.json"), "--run-dir", str(run)]
    up = (sys.executable, "-m", "deploy", "up", *options)
    offset = ("--port-offset", claim_port_offset())
    with spawn(*up, *offset, BABELGATE_CACHE=str(cache)) as process:
        wait_until((run / "torchserve.group").exists)
        started = processes(Stack(run, Path()))
        process.send_signal(signal.SIGINT)
        said = "".join(process.communicate(timeout=120))
    assert process.returncode == 130
    assert "Interrupted: stopping" in said
    assert "Traceback" not in said
    assert not any(map(is_alive, started))
    assert not Supervision(Stack(run, Path())).is_running()
    assert list(run.glob("*.group")) == []
