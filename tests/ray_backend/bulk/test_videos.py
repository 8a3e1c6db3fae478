"""Videos in, captions out: the frames that are wanted, in order, whatever one of them is."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catalog import VISION, Model
from clients.captioner import Captioner, Sending
from clients.frames import Every, Reading
from clients.sources import find_sources
from clients.subtitles import Format
from handlers.base import Outcome, Result, Row, TaskError
from ray_backend.bulk import running
from ray_backend.bulk.folder import Folder
from ray_backend.bulk.running import Listeners
from ray_backend.bulk.running import Outcome as Ended
from ray_backend.bulk.videos import InProcess, VideoTask, VideoWorker
from ray_backend.bulk.workspace import Workspace
from tests.clients.drawing import draw_number, read_number, write_numbers, write_video
from tests.ray_backend.bulk.conftest import Here, Shouting

MODEL = Model(
    "captioning", "captioning", (), ("cpu",), VISION["captioning"].model_validate({})
)


class Reader(Shouting):
    """Captions a frame with the number that it shows."""

    refused: int | None = None

    def answer(self, rows: Sequence[Row]) -> Outcome:
        return Outcome([self._caption(row) for row in rows], {})

    def _caption(self, row: Row) -> Result:
        frames = np.load(io.BytesIO(row.body))
        numbers = [read_number(frame) for frame in frames]
        if self.refused in numbers:
            return TaskError(
                HTTPStatus.SERVICE_UNAVAILABLE, "out-of-memory", "No room."
            )
        return {"captions": [str(number) for number in numbers]}


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """Three videos of 20 frames, two seconds each; every frame shows its own number."""
    folder = tmp_path / "src"
    (folder / "more").mkdir(parents=True)
    for place, name in enumerate(("a.mkv", "b.mp4", "more/c.mp4")):
        pictures = [draw_number(20 * place + n, 48, 64) for n in range(20)]
        write_video(folder / name, pictures)
    return folder


def make_task(videos: Path, kind: Format, every: Every) -> VideoTask:
    return VideoTask(
        workspace=Workspace(Folder(videos.parent / "dst")),
        reading=Reading(every),
        is_full_size=True,
        kind=kind,
        model=MODEL,
        cache=videos.parent,
    )


def run(
    videos: Path,
    reader: Reader,
    kind: Format = Format.JSONL,
    every: Every = Every(),  # noqa: B008
) -> tuple[Ended, list[str], Path]:
    task = make_task(videos, kind, every)
    captioner = Captioner(InProcess(reader), task.reading, Sending())
    here = Here(VideoWorker(task, captioner))
    errors: list[str] = []
    listeners = Listeners(lambda *_: None, errors.append, errors.append)
    found = find_sources([str(videos)], task.sources)
    return running.run(task, found, here, listeners), errors, videos.parent / "dst"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_frame_of_every_video_has_its_caption(videos):
    ended, errors, results = run(videos, Reader())
    assert (ended.count, ended.failed, errors) == (60, 0, [])
    for place, name in enumerate(("a", "b", "more/c")):
        records = read(results / f"{name}.jsonl")
        assert [record["frame"] for record in records] == [*range(20)]
        assert [record["caption"] for record in records] == [
            str(20 * place + n) for n in range(20)
        ]


def test_subtitles_of_some_frames(videos):
    _, _, results = run(videos, Reader(), Format.SRT, Every(seconds=1.0))
    assert (results / "a.srt").read_text() == (
        "1\n00:00:00,000 --> 00:00:01,000\n0\n\n2\n00:00:01,000 --> 00:00:02,000\n10\n\n"
    )


def test_a_video_that_is_cut_off_has_the_captions_up_to_there(videos):
    path = write_numbers(videos / "b.mp4", 100, is_streamable=True)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])
    ended, errors, results = run(videos, Reader())
    assert ended.failed == 1
    assert "b.mp4: at " in errors[0]
    assert 32 < len(read(results / "b.jsonl")) < 100
    assert len(read(results / "a.jsonl")) == 20


def test_a_video_without_a_frame_has_no_result(videos):
    (videos / "b.mp4").write_bytes(b"no video")
    ended, errors, results = run(videos, Reader())
    assert ended.failed == len(errors) == 1
    assert not (results / "b.jsonl").exists()


def test_a_video_that_is_refused_hurts_no_other(videos):
    reader = Reader()
    reader.refused = 25
    ended, errors, results = run(videos, reader)
    assert ended.failed == 1
    assert errors == [f"{videos}/b.mp4: No room."]
    assert not (results / "b.jsonl").exists()
    assert len(read(results / "more/c.jsonl")) == 20


def test_a_video_that_has_ended_each_worker_is_not_tried_again(videos):
    workspace = make_task(videos, Format.JSONL, Every()).workspace
    for _ in range(5):
        workspace.find_ledger([f"{videos}/b.mp4"]).append(b"begin 0 1")
    ended, errors, results = run(videos, Reader())
    assert ended.failed == 1
    assert errors == [
        f"{videos}/b.mp4: each worker that captioned this video has ended"
    ]
    assert not (results / "b.jsonl").exists()


def test_a_repeated_run_tries_only_what_has_no_result(videos):
    reader = Reader()
    reader.refused = 25
    run(videos, reader)
    reader.refused = None
    ended, _, results = run(videos, reader)
    assert (ended.skipped, ended.count, ended.failed) == (2, 20, 0)
    assert len(read(results / "b.jsonl")) == 20


def test_other_frames_are_other_options(videos):
    task = make_task(videos, Format.JSONL, Every())
    other = replace(task, reading=Reading(Every(2)))
    assert task.describe() != other.describe()
