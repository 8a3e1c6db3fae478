"""Bulk work on a real Ray whose processes are killed: results have every id exactly once."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from deploy.stack import ROOT
from handlers.engine.directories import SETTINGS_FILE
from ray_backend.bulk.executor import STOPPED
from ray_backend.bulk.job import MOST_TEXTS
from ray_backend.bulk.storage import KEPT, ObjectFolder
from tests.clients.drawing import draw_number, write_video
from tests.e2e.real_stack import list_listening, wait_until, write_command
from tests.object_store import serve_objects
from tests.programs import spawn

pytestmark = pytest.mark.faults

LIMIT_S = 240
TEXT = "A text of a usual length, which the model only copies, number {}."
TEXTS = ("--column", "text", "--to", "fr", "--from", "en")
COMMAND = (sys.executable, "-m", "ray_backend", "bulk")
#: Ray's name for the process of a worker.
WORKER = "BulkWorker"
#: The rows of a small file.
SMALL = 50


@dataclass(frozen=True)
class Place:
    """A place for sources, results, and a model that copies each row in `row_ms`."""

    folder: Path
    temporary: Path

    @property
    def results(self) -> Path:
        return self.folder / "dst"

    def write_sources(self, large: int) -> list[int]:
        """Write a large file and ten small ones, and return the ids of all rows."""
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
        shutil.copytree(ROOT / "models/phrasebook", model, dirs_exist_ok=True)
        settings = {"echo": {"row_ms": row_ms}, "languages": ["en", "fr"]}
        (model / SETTINGS_FILE).write_text(json.dumps(settings))
        section = {"model": str(model), "engine": "echo"}
        content = {"cuda_id": {"fr": "cpu"}, "translation": section}
        (self.folder / "map.json").write_text(json.dumps(content))

    @contextmanager
    def start(
        self,
        source: str = "",
        results: str = "",
        options: Sequence[str] = TEXTS,
        command: Sequence[str] = COMMAND,
        **changed: str,
    ) -> Iterator[subprocess.Popen[str]]:
        """Run the bulk command during the block, and kill it; all its processes must end."""
        places = [source or self.folder / "src", results or self.results]
        # A killed program leaves a folder of temporary files.
        changed |= {
            "BABELGATE_MAP": str(self.folder / "map.json"),
            "TMPDIR": str(self.temporary),
        }
        workers = ("--workers", "2", "--cpus", "1")
        arguments = (*command, *workers, *options, *places)
        process = spawn(*arguments, cwd=ROOT, **changed)
        try:
            yield process
        finally:
            kill(process)

    def read_ids(self) -> list[int]:
        lines = [
            json.loads(line)
            for path in self.results.rglob("a.fr.jsonl")
            for line in path.read_text().splitlines()
        ]
        assert all(line["text_fr"] == line["text"] for line in lines)
        return sorted(line["id"] for line in lines)

    def count_parts(self) -> int:
        """Count the parts of the large file that are done."""
        return len([*self.results.glob(f"{KEPT}/*-??????")])

    def check(self, ids: list[int]) -> None:
        """Check that the results have every id exactly once and that no other file is left."""
        assert self.read_ids() == ids
        files = [path for path in self.results.rglob("*") if path.is_file()]
        assert len(files) == 11
        assert {path.name for path in files} == {"a.fr.jsonl"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    # The paths of Ray's sockets must be short.
    with tempfile.TemporaryDirectory(prefix="b", dir="/tmp") as temporary:
        yield Place(tmp_path, Path(temporary))


def list_processes(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the run's process and its descendants."""
    try:
        own = psutil.Process(process.pid)
        return [own, *own.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the run alone; its descendants must end without help."""
    started = list_processes(process)
    process.kill()
    process.communicate()
    assert psutil.wait_procs(started, LIMIT_S)[1] == []


def find_workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the processes with the model."""
    return [p for p in list_processes(process) if WORKER in write_command(p)]


def wait_for(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        assert process.poll() is None, process.communicate()
        return condition()

    wait_until(holds, limit_s=LIMIT_S)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end, and return the exit code and the standard error."""
    out, said = process.communicate(timeout=LIMIT_S)
    assert out == ""
    return process.returncode, said


def test_whatever_ends_a_run_nothing_is_lost_or_doubled(place: Place):
    """A worker is killed, then the run is stopped. Nothing listens beyond loopback."""
    ids = place.write_sources(8 * MOST_TEXTS)
    place.write_map(row_ms=0.5)
    before = {*place.temporary.iterdir()}
    with place.start() as process:
        wait_for(process, lambda: place.count_parts() > 0)
        find_workers(process)[0].kill()
        wait_for(process, lambda: place.count_parts() > 2)
        started = list_processes(process)
        connections = (one for each in started for one in each.net_connections("inet"))
        listening = list_listening(connections)
        assert {ip for ip, _ in listening} == {"127.0.0.1"}
        process.send_signal(signal.SIGINT)
        # Ray reports the killed worker itself, on standard output.
        said = process.communicate(timeout=LIMIT_S)[1]
        assert (process.returncode, said) == (130, f"{STOPPED}\n")
        assert psutil.wait_procs(started, LIMIT_S)[1] == []
    assert {*place.temporary.iterdir()} == before
    there = len([*place.results.rglob("a.fr.jsonl")])
    with place.start() as process:
        code, said = end(process)
    assert (code, said) == (0, f"{there} results already existed\n" * bool(there))
    place.check(ids)


def test_a_killed_run_between_buckets_loses_and_doubles_nothing(
    place, tmp_path, monkeypatch
):
    ids = place.write_sources(4 * MOST_TEXTS)
    place.write_map(row_ms=0.5)
    source = ObjectFolder("s3://bulk-e2e/src")
    results = ObjectFolder("s3://bulk-e2e/dst")
    with serve_objects("bulk-e2e") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for path in (tmp_path / "src").rglob("a.jsonl"):
            with source.create(f"{path.parent.name}/a.jsonl") as file:
                file.write(path.read_bytes())
        with place.start(source.url, results.url) as process:
            wait_for(process, lambda: any("-" in n for n in results.list_files(KEPT)))
            kill(process)
        with place.start(source.url, results.url) as process:
            assert end(process)[0] == 0
        contents = [results.read(name) or b"" for name in results.list_files()]
    lines = [json.loads(line) for content in contents for line in content.splitlines()]
    assert len(contents) == 11
    assert sorted(line["id"] for line in lines) == ids
    assert all(line["text_fr"] == line["text"] for line in lines)


def test_videos_are_captioned(place: Place):
    (place.folder / "src").mkdir()
    for name in ("a.mp4", "b.mp4"):
        write_video(place.folder / "src" / name, [draw_number(1, 48, 64)] * 4)
    content = {"captioning": {"devices": "cpu"}}
    (place.folder / "map.json").write_text(json.dumps(content))
    with place.start(options=()) as process:
        assert end(process) == (0, "")
    for name in ("a.jsonl", "b.jsonl"):
        lines = (place.results / name).read_text().splitlines()
        assert [json.loads(line)["frame"] for line in lines] == [0, 1, 2, 3]


def test_a_model_that_cannot_be_loaded_ends_the_run(place: Place):
    place.write_sources(100)
    place.write_map(row_ms=0)
    (place.folder / "model/sentencepiece.bpe.model").write_bytes(b"torn")
    with place.start() as process:
        code, said = end(process)
    assert code == 1
    (line,) = said.splitlines()
    assert "fr cannot be loaded" in line
