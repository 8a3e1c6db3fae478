"""Resolves files, folders and patterns to videos."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clients.errors import VideoError

#: What is a video in a folder. A file that is named itself may be called anything.
SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in "3gp avi flv m2ts m4v mkv mov mp4 mpeg mpg mts ogv ts webm wmv".split()
)


@dataclass(frozen=True)
class Video:
    """A file, with its size and time of change."""

    path: Path
    #: Below the folder that was named; the file's name where it was named itself.
    relative: Path
    size_bytes: int
    modified_ns: int

    @property
    def name(self) -> str:
        return self.path.as_posix()


def find_videos(arguments: Sequence[str]) -> list[Video]:
    """The videos of all arguments, each once, a folder's sorted. Raises VideoError."""
    found: dict[Path, Video] = {}
    for argument in arguments:
        for path, relative in _expand(argument):
            status = path.stat()
            video = Video(path, relative, status.st_size, status.st_mtime_ns)
            found.setdefault(path.resolve(), video)
    return list(found.values())


def _expand(argument: str) -> Iterator[tuple[Path, Path]]:
    """Path and relative path of each video. Raises VideoError if there is none."""
    path = Path(argument)
    if path.is_file():
        return iter([(path, Path(path.name))])
    if path.is_dir():
        videos = (file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
        files = sorted(file for file in videos if file.is_file())
        if not files:
            raise VideoError(
                f"{argument}: the folder holds no video ({' '.join(sorted(SUFFIXES))})"
            )
        return ((file, file.relative_to(path)) for file in files)
    if not set("*?[") & set(argument):
        raise VideoError(f"{argument}: no such file or folder")
    matches = map(Path, sorted(glob.glob(argument, recursive=True)))
    files = [match for match in matches if match.is_file()]
    if not files:
        raise VideoError(f"{argument}: no file matches this pattern")
    return ((file, Path(file.name)) for file in files)
