"""`python -m clients caption` as a process of its own, that is killed and started again."""

from __future__ import annotations

import json
import signal

import pytest

from tests.clients.drawing import write_numbers
from tests.clients.processes import run, run_process, start
from tests.scripted_server import LIMIT_S


@pytest.fixture
def folder(tmp_path):
    """Two videos."""
    write_numbers(tmp_path / "a.mp4", 60)
    write_numbers(tmp_path / "b.mkv", 30, codec="mpeg4")
    return tmp_path


OPTIONS = ("--mode", "stream-single", "--requests-in-flight", "3")


def test_captions_are_written_and_nothing_is_said(folder, fake):
    assert run(folder, fake.url, "caption", "a.mp4", "b.mkv", "-o", "out.jsonl") == (
        0,
        "",
    )
    lines = (folder / "out.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert records == [
        {
            "video": video,
            "frame": number,
            "time_s": number / 10,
            "caption": f"number {number}",
        }
        for video, count in (("a.mp4", 60), ("b.mkv", 30))
        for number in range(count)
    ]
    assert not list(folder.glob("*.part"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "requests",
    [
        31,
        pytest.param(1, marks=pytest.mark.faults),
        pytest.param(90, marks=pytest.mark.faults),
    ],
)
def test_a_run_that_was_killed_goes_on_with_the_same_result(folder, fake, requests):
    videos = ("a.mp4", "b.mkv")
    assert run(folder, fake.url, "caption", *videos, "-o", "whole.jsonl", *OPTIONS) == (
        0,
        "",
    )
    fake.asked.clear()
    fake.will(*["answer"] * (requests - 1), *["hang"] * 3)
    killed = start(folder, fake.url, "caption", *videos, "-o", "killed.jsonl", *OPTIONS)
    fake.wait_for_requests(requests)
    killed.kill()
    killed.communicate(timeout=LIMIT_S)
    assert not (folder / "killed.jsonl").exists()
    fake.will()
    fake.asked.clear()
    assert run(
        folder, fake.url, "caption", *videos, "-o", "killed.jsonl", *OPTIONS
    ) == (0, "")
    # Only requests that were under way or waited for their turn are sent again.
    assert 90 - requests < len(fake.arrays) <= 90 - requests + 2 * 3 + 2
    whole, again = (folder / f"{name}.jsonl" for name in ("whole", "killed"))
    assert again.read_bytes() == whole.read_bytes()
    assert not list(folder.glob("*.part"))


def test_ctrl_c_ends_it_at_once_and_says_how_to_go_on(folder, fake):
    arguments = ("a.mp4", "-o", "out.srt", *OPTIONS)
    fake.will(*["answer"] * 20, *["hang"] * 3)
    process = start(folder, fake.url, "caption", *arguments)
    fake.wait_for_requests(23)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert said.strip() == "Stopped, the same command goes on (out.srt.part)."
    assert not (folder / "out.srt").exists()
    assert run(folder, fake.url, "caption", *arguments) == (0, "")
    assert (folder / "out.srt").read_text().count("-->") == 60
    assert run(folder, fake.url, "caption", "a.mp4", "-o", "whole.srt", *OPTIONS) == (
        0,
        "",
    )
    assert (folder / "out.srt").read_bytes() == (folder / "whole.srt").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["c.mp4", "-o", "x.jsonl"], "c.mp4: no such file or folder"),
        (["*.webm", "-o", "x.jsonl"], "*.webm: no file matches this pattern"),
        (["a.mp4", "b.mkv", "-o", "x.srt"], "2 videos do not go into one srt file"),
        (["a.mp4", "-o", "x.jsonl", "--every", "2m"], "--every 2m: expected"),
        (["a.mp4", "-o", "x.jsonl", "--prebatch", "x"], "--prebatch x: expected"),
        (["a.mp4", "-o", "a.mp4", "--format", "srt"], "a.mp4 is there already"),
    ],
)
def test_an_error_is_one_line_and_nothing_is_written(folder, fake, arguments, reason):
    before = sorted(path.name for path in folder.iterdir())
    code, said = run(folder, fake.url, "caption", *arguments)
    assert code == 1
    assert reason in said
    assert len(said.strip().splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before


def test_without_pyav_it_says_what_to_install(folder, fake):
    (folder / "av.py").write_text("raise ModuleNotFoundError('No module named av')")
    code, said = run_process(folder, fake.url, "caption", "a.mp4", "-o", "x.srt")
    assert (code, said.strip()) == (
        1,
        "Videos are read by PyAV: `make .venv/ready-captioner` installs it.",
    )
