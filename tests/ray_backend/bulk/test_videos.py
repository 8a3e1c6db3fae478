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
from clients.captions import Captioner, Sending, SubtitleFormat
from clients.errors import ClientError
from clients.files import Source
from clients.frames import Every, VideoOptions
from handlers.base import Outcome, Result, Row, TaskError
from ray_backend.bulk.job import Answerer, RunTotals
from ray_backend.bulk.storage import ResultFolder, Store
from ray_backend.bulk.tasks import (
    BulkCaptioning,
    CaptionedVideo,
    InProcess,
    VideoAnswerer,
)
from tests.clients.drawing import draw_number, read_number, write_numbers, write_video
from tests.ray_backend.bulk.conftest import Bench, Died, Shouting

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


def make_job(
    store: Store,
    format: SubtitleFormat = SubtitleFormat.JSONL,
    every: Every | None = None,
) -> BulkCaptioning:
    return BulkCaptioning(
        store=store,
        reading=VideoOptions(every or Every()),
        is_full_size=True,
        format=format,
        model=MODEL,
        cache=Path(),
    )


def make_answerer(reader: Reader, job: BulkCaptioning) -> Answerer:
    caption = VideoAnswerer(Captioner(InProcess(reader), job.reading, Sending()))

    def answer(sources: Sequence[Source]) -> Sequence[CaptionedVideo]:
        if reader.deadly & {source.path.name for source in sources}:
            raise Died
        return caption(sources)

    return answer


def run(
    videos: Path,
    reader: Reader,
    format: SubtitleFormat = SubtitleFormat.JSONL,
    every: Every | None = None,
    answerer: Answerer | None = None,
) -> tuple[RunTotals, list[str], Path]:
    bench = Bench(videos, videos.parent / "dst")
    job = make_job(ResultFolder(bench.results), format, every)
    answerer = answerer or make_answerer(reader, job)
    totals, _ = bench.run(job=job, answerer=answerer)
    return totals, bench.errors, bench.results


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
    _, _, results = run(videos, Reader(), SubtitleFormat.SRT, Every(seconds=1.0))
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


def break_file(_: Reader, video: Path) -> None:
    video.write_bytes(b"no video")


def refuse(reader: Reader, _: Path) -> None:
    reader.refused = 25


def kill(reader: Reader, video: Path) -> None:
    reader.deadly = {video.name}


@pytest.mark.parametrize(
    ("happen", "error"),
    [
        (break_file, "invalid data found when processing input"),
        (refuse, "No room."),
        (kill, "each worker that captioned this video has ended"),
    ],
)
def test_a_video_without_captions_hurts_no_other(videos, happen, error):
    reader = Reader()
    happen(reader, videos / "b.mp4")
    ended, errors, results = run(videos, reader)
    assert ended.failed == 1
    assert errors == [f"{videos}/b.mp4: {error}"]
    assert not (results / "b.jsonl").exists()
    assert len(read(results / "a.jsonl")) == len(read(results / "more/c.jsonl")) == 20


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_machine_that_does_not_see_a_video_ends_the_run(videos, is_gone):
    """Unless nobody sees it any more."""
    job = make_job(ResultFolder(videos.parent / "dst"))
    caption = make_answerer(Reader(), job)

    def answer(sources):
        if is_gone:
            sources[0].path.unlink()
            return caption(sources)
        path = videos / "elsewhere" / sources[0].path.name
        return caption([replace(sources[0], path=path)])

    if is_gone:
        _, errors, _ = run(videos, Reader(), answerer=answer)
        assert errors[0] == f"{videos}/a.mkv has changed meanwhile"
    else:
        with pytest.raises(ClientError, match=rf" does not see {videos}/a\.mkv: every"):
            run(videos, Reader(), answerer=answer)


def test_other_frames_are_other_options():
    job = make_job(ResultFolder(Path()))
    other = make_job(ResultFolder(Path()), every=Every(2))
    assert job.describe() != other.describe()
