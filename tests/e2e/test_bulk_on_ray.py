"""Bulk work on a real Ray of this machine, whose processes are killed: every id is there
exactly once, and memory does not grow with the files.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from deploy.stack import ROOT
from handlers.engine.directories import SETTINGS_FILE
from ray_backend.bulk.manifest import NAME
from ray_backend.bulk.objects import Bucket
from ray_backend.bulk.texts import MOST_TEXTS
from tests.object_store import serve_objects

pytestmark = pytest.mark.faults

LIMIT_S = 240
TEXT = "A text of a usual length, which the model only copies, number {}."
#: The rows of a file, more than one worker takes at once.
LARGE, SMALL = 20_000, 50
#: The most that five times the rows may take of what a part of them takes.
FLAT = 1.25


@dataclass(frozen=True)
class Place:
    """Sources, results, and a model that copies, each row in a millisecond or at once."""

    folder: Path
    temporary: Path

    @property
    def results(self) -> Path:
        return self.folder / "dst"

    def write_sources(self, large: int = LARGE) -> list[int]:
        """A large file and small ones. The ids of all rows."""
        shutil.rmtree(self.folder / "src", ignore_errors=True)
        shutil.rmtree(self.results, ignore_errors=True)
        counts = [large, *[SMALL] * 10]
        first = 0
        for number, count in enumerate(counts):
            path = self.folder / f"src/{number}/a.jsonl"
            path.parent.mkdir(parents=True)
            ids = range(first, first + count)
            lines = (json.dumps({"id": n, "text": TEXT.format(n)}) for n in ids)
            path.write_text("".join(f"{line}\n" for line in lines))
            first += count
        return [*range(first)]

    def write_map(self, *, row_ms: float) -> None:
        model = self.folder / "model"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(ROOT / "models/phrasebook", model)
        settings = {"echo": {"row_ms": row_ms}, "languages": ["en", "fr"]}
        (model / SETTINGS_FILE).write_text(json.dumps(settings))
        section = {"model": str(model), "engine": "echo"}
        content = {"cuda_id": {"fr": "cpu"}, "translation": section}
        (self.folder / "map.json").write_text(json.dumps(content))

    @contextmanager
    def start(
        self, source: str = "", results: str = ""
    ) -> Iterator[subprocess.Popen[str]]:
        """The command. None of its processes is left afterwards."""
        command = [sys.executable, "-m", "ray_backend", "bulk", "--column", "text"]
        options = ["--to", "fr", "--from", "en", "--workers", "2", "--cpus", "1"]
        changed = {
            "BABELGATE_MAP": str(self.folder / "map.json"),
            "TMPDIR": str(self.temporary),
        }
        process = subprocess.Popen(
            [
                *command,
                *options,
                source or str(self.folder / "src"),
                results or str(self.results),
            ],
            cwd=ROOT,
            env=os.environ | changed,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        started: list[psutil.Process] = []
        try:
            yield process
        finally:
            started = list_processes(process)
            process.kill()
            process.communicate()
            _, left = psutil.wait_procs(started, LIMIT_S)
            assert left == []

    def read_ids(self) -> list[int]:
        lines = [
            json.loads(line)
            for path in self.results.rglob("a.fr.jsonl")
            for line in path.read_text().splitlines()
        ]
        assert all(line["text_fr"] == line["text"] for line in lines)
        return sorted(line["id"] for line in lines)

    def has_parts(self) -> bool:
        return any(self.results.glob(".bulk/parts/*/??????"))

    def check(self, ids: list[int]) -> None:
        """Every id is there exactly once, and nothing is left."""
        assert self.read_ids() == ids
        files = [path for path in self.results.rglob("*") if path.is_file()]
        assert len(files) == 11 + 1
        assert {path.name for path in files} == {"a.fr.jsonl", NAME}
        assert len((self.results / NAME).read_text().splitlines()) == 11


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    # Ray's sockets have short names.
    with tempfile.TemporaryDirectory(prefix="b", dir="/tmp") as temporary:
        yield Place(tmp_path, Path(temporary))


def list_processes(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The run's own, and all that it has started."""
    try:
        own = psutil.Process(process.pid)
        return [own, *own.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def find_workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes with the model."""
    return [p for p in list_processes(process) if "MapWorker" in show(p)]


def show(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def wait_for(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT_S
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and what was said."""
    out, said = process.communicate(timeout=LIMIT_S)
    assert out == ""
    return process.returncode, said


def test_killed_workers_and_a_killed_run_lose_and_double_nothing(place):
    ids = place.write_sources()
    place.write_map(row_ms=0.5)
    with place.start() as process:
        wait_for(process, place.has_parts)
        find_workers(process)[0].kill()
        wait_for(process, lambda: len(list(place.results.rglob("??????"))) > 1)
        started = list_processes(process)
        process.kill()
        process.communicate()
        # Nobody has ended them.
        assert psutil.wait_procs(started, LIMIT_S)[1] == []
    assert place.has_parts()
    kept = {path: path.stat().st_mtime_ns for path in place.results.rglob("a.fr.jsonl")}
    with place.start() as process:
        wait_for(process, lambda: len(find_workers(process)) == 2)
        wait_for(process, place.has_parts)
        find_workers(process)[1].kill()
        code, said = end(process)
    assert (code, said) == (0, f"{len(kept)} results were there already\n" * bool(kept))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    place.check(ids)


def test_a_killed_run_between_buckets_loses_and_doubles_nothing(
    place, tmp_path, monkeypatch
):
    ids = place.write_sources(5 * MOST_TEXTS)
    place.write_map(row_ms=0.5)
    source, results = Bucket("s3://bulk-e2e/src"), Bucket("s3://bulk-e2e/dst")
    with serve_objects(tmp_path, "bulk-e2e") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for path in (tmp_path / "src").rglob("a.jsonl"):
            source.write(f"{path.parent.name}/a.jsonl", path.read_bytes())
        with place.start(source.url, results.url) as process:
            wait_for(process, lambda: any(results.list_objects(".bulk/parts")))
            started = list_processes(process)
            process.kill()
            process.communicate()
            assert psutil.wait_procs(started, LIMIT_S)[1] == []
        place.write_map(row_ms=0)
        with place.start(source.url, results.url) as process:
            assert end(process)[0] == 0
        found = [each["path"] for each in results.list_objects()]
        contents = [results.read(name) or b"" for name in found if name != NAME]
    lines = [json.loads(line) for content in contents for line in content.splitlines()]
    assert sorted(line["id"] for line in lines) == ids
    assert all(line["text_fr"] == line["text"] for line in lines)
    assert len(found) == 11 + 1


def test_ctrl_c_stops_and_the_same_command_goes_on(place):
    """Meanwhile nothing listens beyond the loopback interface."""
    ids = place.write_sources()
    place.write_map(row_ms=0.2)
    with place.start() as process:
        wait_for(process, place.has_parts)
        started = list_processes(process)
        heard = {
            connection.laddr.ip.removeprefix("::ffff:")
            for each in started
            for connection in each.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }
        assert heard == {"127.0.0.1"}
        process.send_signal(signal.SIGINT)
        assert end(process) == (130, "Stopped, the same command goes on.\n")
        assert psutil.wait_procs(started, LIMIT_S)[1] == []
    assert list(place.temporary.iterdir()) == []
    with place.start() as process:
        assert end(process)[0] == 0
    place.check(ids)


def test_memory_does_not_grow_with_the_files(place):
    place.write_map(row_ms=0)
    few = measure_peak(place, LARGE)
    many = measure_peak(place, 5 * LARGE)
    assert {name: many[name] / few[name] < FLAT for name in few} == dict.fromkeys(
        few, True
    )


def measure_peak(place: Place, rows: int) -> dict[str, int]:
    """The most bytes that the run and its workers had for themselves."""
    ids = place.write_sources(rows)
    peak = {"run": 0, "worker": 0}
    with place.start() as process:
        while process.poll() is None:
            workers = [find_own(worker) for worker in find_workers(process)]
            peak["run"] = max(peak["run"], find_own(psutil.Process(process.pid)))
            peak["worker"] = max([peak["worker"], *workers])
            time.sleep(0.2)
        assert end(process) == (0, "")
    place.check(ids)
    return peak


def find_own(process: psutil.Process) -> int:
    """Its bytes of memory that no other process shares."""
    try:
        return int(process.memory_full_info().uss)
    except psutil.Error:
        return 0


def test_a_model_that_cannot_be_loaded_ends_the_run(place):
    place.write_sources(100)
    place.write_map(row_ms=0)
    (place.folder / "model/sentencepiece.bpe.model").write_bytes(b"torn")
    with place.start() as process:
        code, said = end(process)
    assert code == 1
    (line,) = said.splitlines()
    assert line.startswith("the work has failed: ")
    assert "fr cannot be loaded" in line
