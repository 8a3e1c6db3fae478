"""Whole videos through a server: order, bounds, broken videos, and the text of captions."""

from pathlib import Path

import pytest

from clients.bulk import End, Event
from clients.captions import (
    CaptionAnswer,
    Captioner,
    Cue,
    Mode,
    Sending,
    SubtitleFormat,
    VideoEnd,
    caption_video,
    join_cues,
    render,
)
from clients.errors import ClientError, InputError
from clients.files import VIDEOS, find_sources
from clients.frames import FrameSize, VideoOptions, pack_frames
from clients.server import ApiClient
from tests.clients.drawing import write_numbers

READING = VideoOptions(size=FrameSize(32, 64))


def run(
    server: ApiClient, paths: list[Path], sending: Sending, events: list[Event]
) -> None:
    """Caption videos, and add the events to a list as they occur."""
    captioner = Captioner(server.caption, READING, sending)
    videos = find_sources([str(path) for path in paths], VIDEOS)
    captioner.run(videos, lambda event, _: events.append(event))


def list_captions(events: list[Event], video: int = 0) -> list[str]:
    return [
        caption
        for event in events
        if isinstance(event, CaptionAnswer) and event.source == video
        for caption in event.captions
    ]


def numbers(count: int) -> list[str]:
    return [f"number {number % 256}" for number in range(count)]


@pytest.fixture
def clip(tmp_path):
    return write_numbers(tmp_path / "a.mp4", 100)


@pytest.mark.parametrize(
    ("mode", "shapes"),
    [
        (Mode.STREAM_PREBATCH, [32, 32, 32, 4]),
        (Mode.STREAM_SINGLE, [1] * 100),
        (Mode.SINGLE, [1] * 100),
    ],
)
def test_every_mode_captions_all_frames(stack, server, clip, mode, shapes):
    captions = caption_video(clip, server, READING, Sending(mode))
    assert captions == numbers(100)
    arrived = sorted((len(array) for array in stack.arrays), reverse=True)
    assert arrived == shapes
    assert {array.shape[1:] for array in stack.arrays} == {(32, 64, 3)}


@pytest.mark.parametrize("mode", [Mode.STREAM_SINGLE, Mode.SINGLE])
def test_answers_that_overtake_others_wait_for_them(stack, server, clip, mode):
    stack.will("answer-last", "answer", "answer", "queue-full", "reset")
    events: list[Event] = []
    run(server, [clip], Sending(mode, requests_in_flight=4), events)
    assert list_captions(events) == numbers(100)
    assert events[-1] == VideoEnd(0, end_s=10.0)


def test_the_reader_is_not_far_ahead_of_the_answers(stack, server, clip, monkeypatch):
    ahead = packed = 0
    events: list[Event] = []

    def count(*arguments):
        nonlocal ahead, packed
        for batch in pack_frames(*arguments):
            packed += 1
            ahead = max(ahead, packed - len(events))
            if packed == 6:
                stack.wait_until(lambda: len(stack.arrays) >= 3)
                stack.is_open.set()
            yield batch

    monkeypatch.setattr("clients.captions.pack_frames", count)
    stack.is_open.clear()
    run(server, [clip], Sending(Mode.STREAM_SINGLE, requests_in_flight=3), events)
    # Two per request in flight, and one that is being reported.
    assert 6 <= ahead <= 7
    assert stack.most_at_once == 3
    assert list_captions(events) == numbers(100)


def test_a_whole_video_in_memory_has_a_limit(server, clip):
    frame_bytes = 32 * 64 * 3 + 128
    sending = Sending(Mode.SINGLE, memory_limit_bytes=50 * frame_bytes)
    with pytest.raises(ClientError, match="its first 51 frames take more than"):
        run(server, [clip], sending, [])


@pytest.mark.parametrize("mode", list(Mode))
def test_a_broken_video_ends_where_it_breaks_and_others_follow(server, tmp_path, mode):
    broken = write_numbers(tmp_path / "a.mp4", 100, share=0.7)
    good = write_numbers(tmp_path / "b.mp4", 5)
    events: list[Event] = []
    run(server, [broken, good], Sending(mode), events)
    captions = list_captions(events)
    assert 32 < len(captions) < 100
    assert captions == numbers(len(captions))
    assert list_captions(events, 1) == numbers(5)
    (end,) = [e for e in events if isinstance(e, End) and e.source == 0]
    assert end.error
    assert f"(frame {len(captions)})" in end.error
    with pytest.raises(InputError, match="invalid data"):
        caption_video(broken, server, READING, Sending(mode))


def answers(*captions: str, step_s: float = 0.5) -> list[CaptionAnswer | VideoEnd]:
    """One answer for every two captions, and the end of the video."""
    rows = [(n, n * step_s, caption) for n, caption in enumerate(captions)]
    pairs = [rows[n : n + 2] for n in range(0, len(rows), 2)]
    events = [CaptionAnswer(0, *zip(*pair, strict=True)) for pair in pairs]
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
    ("kind", "expected"),
    [
        (
            SubtitleFormat.SRT,
            "1\n00:00:00,000 --> 00:00:00,500\na < é\n\n"
            "2\n00:00:00,500 --> 00:00:01,000\nc & d\n\n",
        ),
        (
            SubtitleFormat.VTT,
            "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\na &lt; é\n\n"
            "00:00:00.500 --> 00:00:01.000\nc &amp; d\n\n",
        ),
        (
            SubtitleFormat.JSONL,
            '{"video": "ä.mp4", "frame": 0, "time_s": 0.0, "caption": "a < é\\n"}\n'
            '{"video": "ä.mp4", "frame": 1, "time_s": 0.5, "caption": "c & d"}\n',
        ),
    ],
)
def test_every_format_has_its_times_and_escapes(kind, expected):
    assert "".join(render(kind, "ä.mp4", answers("a < é\n", "c & d"))) == expected
