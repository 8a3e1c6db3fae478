"""The journal after a kill, and the runs that may go on with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clients.captioner import CaptionAnswer, VideoEnd
from clients.captions import CaptionJob
from clients.errors import OutputError
from clients.journal import Done, Journal

ORIGIN = {"url": "http://x", "every": {"frames": 1}, "files": [["a.mp4", 5, 7]]}
EVENTS: list[CaptionAnswer | VideoEnd] = [
    CaptionAnswer(0, (0, 1), (0.0, 0.04), ("a red circle", "an “é”\nin two lines")),
    CaptionAnswer(0, (2,), (0.08,), ("",)),
    VideoEnd(0, end_s=0.12),
    CaptionAnswer(1, (0, 10), (0.0, 1.0), ("a", "b")),
    VideoEnd(1, "b.mp4: at 1.500 s (frame 11): broken", 1.5),
    CaptionAnswer(2, (0,), (0.0,), ("c",)),
]


def open_journal(
    path: Path, origin: dict[str, Any], *, is_restart: bool = False
) -> Journal:
    return Journal(path, origin, CaptionJob.events, is_restart=is_restart)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "captions.jsonl.part"


@pytest.fixture
def written(path):
    """The bytes of a journal with all events."""
    with open_journal(path, ORIGIN) as journal:
        for event in EVENTS:
            journal.append(event)
    return path.read_bytes()


def count(events: list[CaptionAnswer | VideoEnd]) -> Done:
    captions: dict[int, int] = {}
    for event in events:
        if isinstance(event, CaptionAnswer):
            captions[event.source] = captions.get(event.source, 0) + len(event.captions)
    ended = frozenset(event.source for event in events if isinstance(event, VideoEnd))
    return Done(captions, ended)


def test_what_was_appended_is_there(path, written):
    assert len(written.splitlines()) == 1 + len(EVENTS)
    with open_journal(path, ORIGIN) as journal:
        assert journal.done == count(EVENTS)
        assert journal.errors == {1: "b.mp4: at 1.500 s (frame 11): broken"}
        found = [event for video in range(4) for event in journal.read(video)]
    assert found == EVENTS


def test_a_journal_that_ends_anywhere_goes_on_after_its_last_whole_line(path, written):
    for length in range(len(written)):
        path.write_bytes(written[:length])
        whole = max(0, written[:length].count(b"\n") - 1)
        with open_journal(path, ORIGIN) as journal:
            assert journal.done == count(EVENTS[:whole])
            for event in EVENTS[whole:]:
                journal.append(event)
            assert [*journal.read(0), *journal.read(1)] == EVENTS[:5]
        assert path.read_bytes() == written


def test_what_a_power_cut_left_is_dropped(path, written):
    lines = written.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + b"\0" * 100 + b"\n" + lines[4])
    with open_journal(path, ORIGIN) as journal:
        assert journal.done == count(EVENTS[:2])
    assert path.read_bytes() == b"".join(lines[:3])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"url": "http://y"}, "url"),
        ({"every": {"frames": 2}}, "every"),
        ({"files": [["a.mp4", 5, 8]]}, "files"),
    ],
)
def test_a_journal_of_something_else_is_left_alone(path, written, change, named):
    with pytest.raises(OutputError, match=f"other options or files \\({named}\\)"):
        open_journal(path, {**ORIGIN, **change})
    assert path.read_bytes() == written


def test_a_restart_begins_anew_only_for_something_else(path, written):
    with open_journal(path, ORIGIN, is_restart=True) as journal:
        assert journal.done == count(EVENTS)
    other = {**ORIGIN, "url": "http://y"}
    with open_journal(path, other, is_restart=True) as journal:
        assert journal.done == Done()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [other]


@pytest.mark.parametrize("content", ["[1, 2]\n", '"text"\n', "{}\n"])
def test_a_file_that_is_no_journal_is_left_alone(path, content):
    path.write_text(content)
    with pytest.raises(OutputError, match="other options or files"):
        open_journal(path, ORIGIN)
    assert path.read_text() == content


def test_two_runs_do_not_write_the_same_journal(path):
    with (
        open_journal(path, ORIGIN),
        pytest.raises(OutputError, match="another run writes it"),
    ):
        open_journal(path, ORIGIN)
    with open_journal(path, ORIGIN) as journal:
        assert journal.done == Done()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="file/x.part: "):
        open_journal(tmp_path / "file" / "x.part", ORIGIN)
