"""Captions as the text of files."""

from __future__ import annotations

import json

import pytest

from clients.captioner import CaptionAnswer, VideoEnd
from clients.captions import Cue, SubtitleFormat, join_cues, render, show_time


def answers(*captions: str, step_s: float = 0.5) -> list[CaptionAnswer | VideoEnd]:
    """One answer for each two captions, and the end."""
    rows = [(n, n * step_s, caption) for n, caption in enumerate(captions)]
    pairs = [rows[n : n + 2] for n in range(0, len(rows), 2)]
    events = [
        CaptionAnswer(
            0,
            tuple(n for n, _, _ in pair),
            tuple(time_s for _, time_s, _ in pair),
            tuple(caption for _, _, caption in pair),
        )
        for pair in pairs
    ]
    return [*events, VideoEnd(0, end_s=len(captions) * step_s)]


@pytest.mark.parametrize(
    ("captions", "cues"),
    [
        (["a", "b"], [Cue(0, 500, "a"), Cue(500, 1000, "b")]),
        (
            ["a", "a", "a", "b", "a"],
            [Cue(0, 1500, "a"), Cue(1500, 2000, "b"), Cue(2000, 2500, "a")],
        ),
        (["", "a", "", "a"], [Cue(500, 1000, "a"), Cue(1500, 2000, "a")]),
        (["a b", "a\n\n b "], [Cue(0, 1000, "a b")]),
        (["1 --> 2"], [Cue(0, 500, "1 -> 2")]),
        ([""], []),
        ([], []),
    ],
    ids="two joined empty blanks arrow blank none".split(),
)
def test_a_caption_lasts_until_the_next_one(captions, cues):
    assert list(join_cues(answers(*captions))) == cues


def test_a_cue_is_never_empty_in_time():
    """Frames closer than a millisecond, and a video that ends with its last frame."""
    events = answers("a", "b", "c", step_s=0.0001)
    assert [cue.end_ms - cue.start_ms for cue in join_cues(events)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "00:00:00,000"),
        (59_999, "00:00:59,999"),
        (3_723_004, "01:02:03,004"),
        (360_000_000, "100:00:00,000"),
    ],
)
def test_times_are_shown_in_full(time_ms, text):
    assert show_time(time_ms, ",") == text


def test_subrip_is_numbered_and_as_it_is():
    text = "".join(render(SubtitleFormat.SRT, "a.mp4", answers("a < b", "c")))
    assert text == (
        "1\n00:00:00,000 --> 00:00:00,500\na < b\n\n"
        "2\n00:00:00,500 --> 00:00:01,000\nc\n\n"
    )


def test_webvtt_has_a_head_and_escapes():
    text = "".join(render(SubtitleFormat.VTT, "a.mp4", answers("a < b & <c>")))
    assert text == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\na &lt; b &amp; &lt;c&gt;\n\n"
    )


def test_records_name_video_frame_time_and_caption():
    lines = list(render(SubtitleFormat.JSONL, "clips/ä.mp4", answers("é\n", "b")))
    assert lines[0] == (
        '{"video": "clips/ä.mp4", "frame": 0, "time_s": 0.0, "caption": "é\\n"}\n'
    )
    assert json.loads(lines[1])["time_s"] == 0.5
    assert len(lines) == 2
