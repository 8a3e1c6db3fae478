"""The videos that files, folders and patterns mean."""

from __future__ import annotations

import pytest

from clients.errors import InputError
from clients.sources import DOCUMENTS, VIDEOS, find_sources
from documents.formats import SUFFIXES


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in (
        "b.mp4",
        "a.MKV",
        "notes.txt",
        "season/1.webm",
        "odd[1].bin",
        ".b.mp4",
        "~$b.mp4",
    ):
        path = tmp_path / "clips" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 5)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
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


@pytest.mark.usefixtures("folder")
def test_a_video_knows_where_it_is_in_its_folder_and_when_it_changed():
    last = find_sources(["clips"], VIDEOS)[-1]
    assert last.relative.as_posix() == "season/1.webm"
    assert (last.size_bytes, last.modified_ns) == (5, last.path.stat().st_mtime_ns)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("clips/c.mp4", "clips/c.mp4: no such file or folder"),
        ("empty", "empty: the folder holds no video"),
        ("clips/*.avi", "no file matches this pattern"),
    ],
)
def test_an_argument_that_means_no_video_is_refused(argument, reason):
    with pytest.raises(InputError, match=reason.replace("*", ".")):
        find_sources(["clips/b.mp4", argument], VIDEOS)


def test_a_folders_documents_are_those_that_the_stack_takes():
    assert set(SUFFIXES) == DOCUMENTS.suffixes
