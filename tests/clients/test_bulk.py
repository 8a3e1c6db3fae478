"""Jobs that are stopped between any two answers, and what stands in their files after."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from clients.bulk import BulkResult, run_job
from clients.captioner import Captioner, Mode, Sending
from clients.captions import CaptionJob
from clients.console import show_progress
from clients.errors import OutputError, ServerError
from clients.frames import Every, Prebatch, VideoOptions
from clients.journal import End, Event
from clients.outputs import plan_captions
from clients.server import ApiClient
from clients.sources import VIDEOS, find_sources
from clients.subtitles import SubtitleFormat
from tests.clients.drawing import write_numbers


class Stop(Exception):
    """Ends a run as a kill would, between two lines of the journal."""


@pytest.fixture
def clips(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_numbers(tmp_path / "a.mp4", 20)
    broken = write_numbers(tmp_path / "b.mp4", 60, is_streamable=True)
    broken.write_bytes(broken.read_bytes()[: broken.stat().st_size * 7 // 10])
    write_numbers(tmp_path / "c.mkv", 10, codec="mpeg4")
    return ["a.mp4", "b.mp4", "c.mkv"]


def make_job(
    server: ApiClient,
    clips: list[str],
    output: str,
    *,
    every: str = "3",
    is_full_size: bool = False,
    is_overwrite: bool = False,
) -> CaptionJob:
    videos = find_sources(clips, VIDEOS)
    kind = None if "." in output else SubtitleFormat.SRT
    sending = Sending(Mode.STREAM_PREBATCH, Prebatch(frames=2))
    size = None if is_full_size else server.find_input()
    return CaptionJob(
        sources=videos,
        plan=plan_captions(videos, output, kind),
        captioner=Captioner(server, VideoOptions(Every.parse(every), size), sending),
        is_overwrite=is_overwrite,
    )


def run(
    job: CaptionJob, stop_after: int | None = None
) -> tuple[BulkResult, list[Event]]:
    events: list[Event] = []

    def report(event: Event, _: float) -> None:
        events.append(event)
        if len(events) == stop_after:
            raise Stop

    return run_job(job, report), events


def read_files(job: CaptionJob) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in job.plan.files if path.exists()}


@pytest.mark.parametrize("output", ["captions.jsonl", "subtitles"])
def test_a_job_that_is_stopped_anywhere_has_the_same_result(server, clips, output):
    whole = make_job(server, clips, f"whole-{output}")
    outcome, events = run(whole)
    assert len(events) >= 12
    expected = list(read_files(whole).values())
    for stop_after in range(1, len(events) + 1):
        job = make_job(server, clips, f"{stop_after}-{output}")
        with pytest.raises(Stop):
            run(job, stop_after)
        # A kill may come between the journal's line and the file.
        for path in read_files(job):
            path.unlink()
        again, rest = run(job)
        assert len(rest) == len(events) - stop_after
        assert again.errors == outcome.errors
        assert list(read_files(job).values()) == expected
        assert not job.plan.journal.exists()


def test_a_finished_video_has_its_subtitles_while_others_are_read(server, clips):
    job = make_job(server, clips, "subtitles")
    seen = {}

    def report(event, _):
        if isinstance(event, End):
            seen[event.source] = sorted(path.name for path in read_files(job))

    run_job(job, report)
    assert seen == {
        0: ["a.srt"],
        1: ["a.srt", "b.srt"],
        2: ["a.srt", "b.srt", "c.srt"],
    }


def test_a_broken_video_is_reported_and_has_its_first_captions(server, clips):
    job = make_job(server, clips, "captions.jsonl")
    outcome, _ = run(job)
    (error,) = outcome.errors
    assert error.startswith("b.mp4: at ")
    (content,) = read_files(job).values()
    for video in clips:
        assert f'{{"video": "{video}", "frame": 3, "time_s": 0.3'.encode() in content


def test_files_that_are_there_are_kept_unless_they_may_go(server, clips):
    job = make_job(server, clips, "captions.jsonl")
    run(job)
    before = read_files(job)
    other = make_job(server, clips, "captions.jsonl", every="1s")
    with pytest.raises(OutputError, match="captions.jsonl is there already"):
        run(other)
    assert read_files(job) == before
    run(make_job(server, clips, "captions.jsonl", every="1s", is_overwrite=True))
    assert read_files(job) != before


def test_another_job_does_not_go_on_with_the_journal(fake, server, clips):
    with pytest.raises(Stop):
        run(make_job(server, clips, "captions.jsonl"), 3)
    for other in (
        make_job(server, clips, "captions.jsonl", every="1s"),
        make_job(server, clips[:2], "captions.jsonl"),
        make_job(server, clips, "captions.jsonl", is_full_size=True),
    ):
        with pytest.raises(OutputError, match=r"captions.jsonl.part was begun with"):
            run(other)
    anew = make_job(server, clips, "captions.jsonl", every="1s", is_overwrite=True)
    run(anew)
    expected = make_job(server, clips, "expected.jsonl", every="1s")
    run(expected)
    assert [*read_files(anew).values()] == [*read_files(expected).values()]


def test_a_video_that_has_changed_is_not_gone_on_with(server, clips, tmp_path):
    with pytest.raises(Stop):
        run(make_job(server, clips, "captions.jsonl"), 3)
    write_numbers(tmp_path / "a.mp4", 21)
    with pytest.raises(OutputError, match=r"\(files\)"):
        run(make_job(server, clips, "captions.jsonl"))


def test_a_server_that_refuses_leaves_the_journal(fake, server, clips):
    fake.will("answer", "invalid")
    job = make_job(server, clips, "captions.jsonl")
    with pytest.raises(ServerError, match="422"):
        run(job)
    assert job.plan.journal.exists()
    assert not read_files(job)
    run(job)
    assert read_files(job)


def test_the_bar_shows_frames_and_is_quiet_where_nobody_looks(server, clips):
    texts = {}
    for is_terminal in (True, False):
        file = io.StringIO()
        console = Console(file=file, force_terminal=is_terminal, width=100)
        job = make_job(server, clips, f"{is_terminal}.jsonl")
        with show_progress(console, "frames") as report:
            run_job(job, report)
        texts[is_terminal] = file.getvalue()
    assert texts[False].strip() == ""
    assert "frames/s" in texts[True]
    assert "100 %" in texts[True]
