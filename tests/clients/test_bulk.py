"""Jobs that are stopped between any two answers, and the files they leave."""

import time
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from clients.bulk import Done, End, Journal, run_job
from clients.captions import (
    CaptionAnswer,
    Captioner,
    CaptionJob,
    Mode,
    Sending,
    SubtitleFormat,
    VideoEnd,
    plan_captions,
)
from clients.errors import OutputError
from clients.files import VIDEOS, OutputPlan, find_sources
from clients.frames import Every, Prebatch, VideoOptions
from clients.server import ApiClient
from contract import durable
from tests.clients.conftest import Stop, check_stops, read_files, run
from tests.clients.drawing import write_numbers


@pytest.fixture
def clips(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_numbers(tmp_path / "a.mp4", 20)
    write_numbers(tmp_path / "b.mp4", 60, share=0.7)
    write_numbers(tmp_path / "c.mkv", 10, codec="mpeg4")
    return ["a.mp4", "b.mp4", "c.mkv"]


def make_job(
    server: ApiClient,
    clips: list[str],
    output: str,
    *,
    every: str = "3",
    is_overwrite: bool = False,
) -> CaptionJob:
    videos = find_sources(clips, VIDEOS)
    kind = None if "." in output else SubtitleFormat.SRT
    plan, chosen = plan_captions(videos, output, kind)
    sending = Sending(Mode.STREAM_PREBATCH, Prebatch(frames=2))
    reading = VideoOptions(Every.parse(every), server.find_input())
    return CaptionJob(
        sources=videos,
        plan=plan,
        kind=chosen,
        url=server.url,
        captioner=Captioner(server.caption, reading, sending),
        is_overwrite=is_overwrite,
    )


@pytest.mark.parametrize("output", ["captions.jsonl", "subtitles"])
def test_a_job_that_is_stopped_anywhere_has_the_same_result(server, clips, output):
    check_stops(lambda name: make_job(server, clips, f"{name}-{output}"))


def test_a_video_has_its_subtitles_once_it_is_read_unless_it_is_none(server, clips):
    Path("d.mp4").touch()
    job = make_job(server, [*clips, "d.mp4"], "subtitles")
    seen = {}

    def report(event, _):
        if isinstance(event, End):
            seen[event.source] = sorted(read_files(job))

    run_job(job, report)
    three = ["a.srt", "b.srt", "c.srt"]
    assert seen == {0: three[:1], 1: three[:2], 2: three, 3: three}


@pytest.mark.parametrize("name", ["all.jsonl", "{}.srt"])
def test_captions_of_many_videos_are_written_in_no_time(server, clips, name):
    plan = OutputPlan([Path(name.format(n)) for n in range(4000)], Path("journal"))
    job = replace(make_job(server, clips, "all.jsonl"), plan=plan)
    with Journal(plan.journal, {}, job.events) as journal:
        began = time.process_time()
        for number in range(3999):
            job.publish(journal, VideoEnd(number, "It is broken."))
        assert time.process_time() - began < 2


def test_files_that_are_there_are_kept_unless_they_may_go(server, clips):
    job = make_job(server, clips, "captions.jsonl")
    run(job)
    before = read_files(job)
    other = make_job(server, clips, "captions.jsonl", every="1s")
    with pytest.raises(OutputError, match="captions.jsonl already exists"):
        run(other)
    assert read_files(job) == before
    with pytest.raises(Stop):  # its journal is not resumed either
        run(make_job(server, clips, "captions.jsonl", is_overwrite=True), 3)
    repeated = make_job(server, clips, "captions.jsonl", every="1s", is_overwrite=True)
    run(repeated)
    expected = make_job(server, clips, "expected.jsonl", every="1s")
    run(expected)
    assert [*read_files(repeated).values()] == [*read_files(expected).values()]


def test_a_run_that_begins_as_another_ends_leaves_its_files(server, clips, monkeypatch):
    job = make_job(server, clips, "captions.jsonl")
    with pytest.raises(Stop):
        run(job, 3)

    def end_other(_: CaptionJob) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(CaptionJob, "check", lambda _: None)
            run(job)

    monkeypatch.setattr(CaptionJob, "check", end_other)
    with pytest.raises(OutputError, match="captions.jsonl already exists"):
        run_job(job, lambda *_: pytest.fail("the work is done again"))
    assert not job.plan.journal.exists()


ORIGIN = {"url": "http://x", "every": {"frames": 1}, "files": [["a.mp4", 5, 7]]}
EVENTS: list[CaptionAnswer | VideoEnd] = [
    CaptionAnswer(0, (0, 1), (0.0, 0.04), ("a red circle", "an “é”\nin two lines")),
    CaptionAnswer(0, (2,), (0.08,), ("",)),
    VideoEnd(0, end_s=0.12),
    CaptionAnswer(1, (0, 10), (0.0, 1.0), ("a", "b")),
    VideoEnd(1, "b.mp4: at 1.500 s (frame 11): broken", 1.5),
    CaptionAnswer(2, (0,), (0.0,), ("c",)),
]


def open_journal(path: Path) -> Journal:
    return Journal(path, ORIGIN, CaptionJob.events)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "captions.jsonl.part"


def count(events: list[CaptionAnswer | VideoEnd]) -> Done:
    captions = Counter[int]()
    for event in events:
        captions[event.source] += event.size
    return Done(captions, {e.source: e for e in events if isinstance(e, VideoEnd)})


def test_a_journal_that_ends_anywhere_goes_on_after_its_last_whole_line(path):
    with open_journal(path) as journal:
        for event in EVENTS:
            journal.append(event)
    written = path.read_bytes()
    for length in range(len(written)):
        path.write_bytes(written[:length])
        whole = max(0, written[:length].count(b"\n") - 1)
        with open_journal(path) as journal:
            assert journal.done == count(EVENTS[:whole])
            for event in EVENTS[whole:]:
                journal.append(event)
            assert [*chain.from_iterable(map(journal.read, range(4)))] == EVENTS
        assert path.read_bytes() == written


@pytest.mark.parametrize("line", ['{"source": 0, "texts": ["a"]}\n', "[1]\n"])
def test_a_line_of_another_version_is_no_end(path, line):
    with open_journal(path) as journal:
        journal.append(EVENTS[0])
    before = path.read_text()
    path.write_text(before + line)
    with open_journal(path) as journal:
        assert journal.done == count(EVENTS[:1])
    assert path.read_text() == before


@pytest.mark.parametrize("content", ["[1, 2]\n", '"text"\n', "{}\n", "a,b\n", "a,b"])
def test_a_file_that_is_no_journal_is_left_alone(path, content):
    path.write_text(content)
    with pytest.raises(OutputError, match="other options or files"):
        open_journal(path)
    assert path.read_text() == content


def test_two_runs_do_not_write_the_same_journal(path):
    with open_journal(path), pytest.raises(OutputError, match="another run is writing"):
        open_journal(path)
    with open_journal(path) as journal:
        assert journal.done == Done()


def test_a_journal_that_another_run_has_just_removed_is_not_written(path, monkeypatch):
    first, lock = open_journal(path), durable.try_lock

    def lock_late(descriptor: int) -> bool:
        with first:
            first.remove()
        return lock(descriptor)

    monkeypatch.setattr(durable, "try_lock", lock_late)
    with pytest.raises(OutputError, match="another run is writing it"):
        open_journal(path)
    assert not path.exists()
