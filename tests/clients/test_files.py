"""The videos that files, folders and patterns select, and the files that a run writes."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from clients.captions import SubtitleFormat, plan_captions
from clients.errors import InputError, OutputError
from clients.files import (
    DOCUMENTS,
    VIDEOS,
    Source,
    find_sources,
    plan_translations,
    write_whole,
)
from documents.formats import SUFFIXES


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
        (["a.mp4"], "c.jsonl", None, ["c.jsonl"]),
        (TWO, "c.jsonl", None, ["c.jsonl", "c.jsonl"]),
        (TWO, "new/c.out", SubtitleFormat.JSONL, ["new/c.out", "new/c.out"]),
        (["a.mp4"], "c.SRT", None, ["c.SRT"]),
        (["a.mp4"], "c.txt", SubtitleFormat.VTT, ["c.txt"]),
        (["a.mp4"], "there", SubtitleFormat.SRT, ["there/a.srt"]),
        (["a.mp4"], "new/", SubtitleFormat.SRT, ["new/a.srt"]),
        (TWO, "new", SubtitleFormat.SRT, ["new/a.srt", "new/s/b.srt"]),
    ],
)
def test_files_are_planned(names, output, kind, files):
    plan, _ = plan_captions(make_videos(*names), output, kind)
    assert plan.files == [*map(Path, files)]
    assert plan.journal == Path(f"{output.rstrip('/')}.part")


@pytest.mark.parametrize(
    ("names", "output", "kind", "reason"),
    [
        (TWO, "c.srt", None, "2 videos do not fit into one srt file; give a folder: "),
        (TWO, "file", SubtitleFormat.SRT, "2 videos need a folder, not a file"),
        (TWO, "there", None, "there is a folder: give a file such as there/captions.j"),
        (["a.mp4"], "c.txt", None, "expected a name that ends in .jsonl, .srt or .vtt"),
        (["a.mp4"], "new", None, "expected a name that ends in"),
        (TWO, "clips/a.mp4", SubtitleFormat.JSONL, "would replace a video"),
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
        (["a.csv", "s/b.txt"], "n", {"n/a.fr.csv": "a.csv", "n/s/b.fr.txt": "s/b.txt"}),
        (["a.csv", "a.fr.csv", "b.fr.csv"], None, {
            "in/a.fr.csv": "a.csv", "in/b.fr.fr.csv": "b.fr.csv"
        }),
        (["a.csv", "out/a.fr.csv"], "in/out", {"in/out/a.fr.csv": "a.csv"}),
        (["a.csv"], ".", {"a.fr.csv": "a.csv"}),
    ],
)  # fmt: skip
def test_translations_are_planned(names, output, files):
    sources = [Source(Path("in", name), Path(name), 1, 1) for name in names]
    wanted, plan = plan_translations(sources, output, "fr")
    found = {
        path.as_posix(): source.relative.as_posix()
        for path, source in zip(plan.files, wanted, strict=True)
    }
    assert found == files
    assert plan.journal == Path(f"{(output or next(iter(files))).rstrip('/')}.part")


@pytest.mark.parametrize(
    ("names", "output", "reason"),
    [
        (["a.csv"], "b.txt", "b.txt: expected a name that ends in .csv as in/a.csv "),
        (["a.csv"], "file", "file: translations need a folder, not a file"),
        (["a.csv"], "in/a.csv", "in/a.csv: the translation would replace its source"),
        (["a.csv", "b.csv"], "c.csv", "2 files cannot be written to one; give a "),
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


@pytest.fixture
def clips(tmp_path):
    names = "b.mp4 a.MKV notes.txt season/1.webm odd[1].bin .b.mp4 ~$b.mp4 .old/c.mp4"
    for name in names.split():
        path = tmp_path / "clips" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 5)
    (tmp_path / "empty").mkdir()


@pytest.mark.usefixtures("clips")
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["clips/b.mp4"], ["clips/b.mp4"]),
        (["clips"], ["clips/a.MKV", "clips/b.mp4", "clips/season/1.webm"]),
        (["clips/*.mp4"], ["clips/b.mp4"]),
        (["clips/**/*.webm"], ["clips/season/1.webm"]),
        (["clips/odd[1].bin"], ["clips/odd[1].bin"]),
        (["clips/b.mp4", "clips/*.MKV"], ["clips/b.mp4", "clips/a.MKV"]),
        (["clips/b.mp4", "clips/../clips/b.mp4"], ["clips/b.mp4"]),
    ],
    ids="file folder pattern deep-pattern named-like-a-pattern order twice".split(),
)
def test_arguments_name_videos(arguments, names):
    assert [video.name for video in find_sources(arguments, VIDEOS)] == names


@pytest.mark.usefixtures("clips")
@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("clips/c.mp4", "clips/c.mp4: no such file or folder"),
        ("empty", "empty: the folder contains no video"),
        ("clips/*.avi", "no file matches this pattern"),
        ("a text " * 40, "a text : File name too long"),
    ],
)
def test_an_argument_that_means_no_video_is_refused(argument, reason):
    with pytest.raises(InputError, match=reason.replace("*", ".")):
        find_sources(["clips/b.mp4", argument], VIDEOS)


@pytest.mark.usefixtures("clips")
def test_a_folder_that_may_not_be_read_is_not_left_out(monkeypatch):
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "season":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match="clips/season: Permission denied"):
        find_sources(["clips"], VIDEOS)


def test_a_folders_documents_are_those_that_the_stack_takes():
    assert set(SUFFIXES) == DOCUMENTS.suffixes
