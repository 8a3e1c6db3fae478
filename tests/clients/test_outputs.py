"""The files of captions and translations, and refused ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.captions import SubtitleFormat, plan_captions
from clients.errors import OutputError
from clients.outputs import plan_translations, write_whole
from clients.sources import Source


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("x")
    monkeypatch.chdir(tmp_path)


def make_videos(*relatives: str) -> list[Source]:
    return [Source(Path("clips", name), Path(name), 1, 1) for name in relatives]


TWO = ("a.mp4", "s/b.mkv")


@pytest.mark.parametrize(
    ("names", "output", "kind", "files"),
    [
        (["a.mp4"], "c.jsonl", None, {"c.jsonl": (0,)}),
        (TWO, "c.jsonl", None, {"c.jsonl": (0, 1)}),
        (TWO, "new/c.out", SubtitleFormat.JSONL, {"new/c.out": (0, 1)}),
        (["a.mp4"], "c.SRT", None, {"c.SRT": (0,)}),
        (["a.mp4"], "c.txt", SubtitleFormat.VTT, {"c.txt": (0,)}),
        (["a.mp4"], "there", SubtitleFormat.SRT, {"there/a.srt": (0,)}),
        (["a.mp4"], "new/", SubtitleFormat.SRT, {"new/a.srt": (0,)}),
        (TWO, "new", SubtitleFormat.SRT, {"new/a.srt": (0,), "new/s/b.srt": (1,)}),
    ],
)
def test_files_are_planned(names, output, kind, files):
    plan = plan_captions(make_videos(*names), output, kind)
    assert plan.files == {Path(path): videos for path, videos in files.items()}
    assert plan.journal == Path(f"{output.rstrip('/')}.part")


@pytest.mark.parametrize(
    ("names", "output", "kind", "reason"),
    [
        (
            TWO,
            "c.srt",
            None,
            "2 videos do not go into one srt file; give a folder: -o c",
        ),
        (TWO, "file", SubtitleFormat.SRT, "2 videos need a folder, this is a file"),
        (TWO, "there", None, "there is a folder: give a file such as there/captions.j"),
        (["a.mp4"], "c.txt", None, "expected a name that ends in .jsonl, .srt or .vtt"),
        (["a.mp4"], "new", None, "expected a name that ends in"),
        (
            ["a.mp4", "a.mkv"],
            "new",
            SubtitleFormat.SRT,
            "clips/a.mp4 and clips/a.mkv would both be written to new/a.srt",
        ),
    ],
)
def test_what_cannot_be_written_is_explained(names, output, kind, reason):
    with pytest.raises(OutputError, match=reason):
        plan_captions(make_videos(*names), output, kind)


@pytest.mark.parametrize(
    ("names", "output", "files"),
    [
        (["a.csv"], None, {"in/a.fr.csv": "a.csv"}),
        (["a.tar.CSV"], None, {"in/a.tar.fr.CSV": "a.tar.CSV"}),
        (["a.csv"], "b.csv", {"b.csv": "a.csv"}),
        (["a.csv"], "there", {"there/a.fr.csv": "a.csv"}),
        (["a.csv"], "new/", {"new/a.fr.csv": "a.csv"}),
        (["a.csv"], "new", {"new/a.fr.csv": "a.csv"}),
        (["a.csv", "s/b.txt"], None, {"in/a.fr.csv": "a.csv", "in/s/b.fr.txt": "s/b.txt"}),
        (["a.csv", "s/b.txt"], "n", {"n/a.fr.csv": "a.csv", "n/s/b.fr.txt": "s/b.txt"}),
        (["a.csv", "a.fr.csv", "b.fr.csv"], None, {
            "in/a.fr.csv": "a.csv", "in/b.fr.fr.csv": "b.fr.csv"
        }),
        (["a.csv", "out/a.fr.csv"], "in/out", {"in/out/a.fr.csv": "a.csv"}),
    ],
)  # fmt: skip
def test_translations_are_planned(names, output, files):
    sources = [Source(Path("in", name), Path(name), 1, 1) for name in names]
    wanted, plan = plan_translations(sources, output, "fr")
    found = {
        path.as_posix(): wanted[place].relative.as_posix()
        for path, (place,) in plan.files.items()
    }
    assert found == files
    assert plan.journal == Path(f"{(output or next(iter(files))).rstrip('/')}.part")


@pytest.mark.parametrize(
    ("names", "output", "reason"),
    [
        (
            ["a.csv"],
            "b.txt",
            "b.txt: expected a name that ends in .csv as in/a.csv does",
        ),
        (["a.csv"], "file", "file: translations need a folder, this is a file"),
        (["a.csv"], "in/a.csv", "in/a.csv: the translation would replace its source"),
        (
            ["a.csv", "b.csv"],
            "c.csv",
            "2 files do not go into one; give a folder: -o c/",
        ),
        (["a.csv", "x/../a.csv"], "n", "would both be written to n/"),
    ],
)
def test_translations_that_cannot_be_written_are_explained(names, output, reason):
    sources = [Source(Path("in", name), Path(Path(name).name), 1, 1) for name in names]
    with pytest.raises(OutputError, match=reason):
        plan_translations(sources, output, "fr")


def test_a_place_that_cannot_be_written_is_named():
    with (
        pytest.raises(OutputError, match="file/c.srt: "),
        write_whole(Path("file/c.srt")),
    ):
        pytest.fail("there is no such folder")
