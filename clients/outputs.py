"""The files that the option `-o` names. Each is written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clients.errors import OutputError
from clients.subtitles import Format
from clients.videos import Video


@dataclass(frozen=True)
class Plan:
    """Which videos go into which file."""

    kind: Format
    #: Each file with the places of its videos in the list of videos.
    files: dict[Path, tuple[int, ...]]
    journal: Path

    def find_existing(self) -> list[Path]:
        return [path for path in self.files if path.exists()]


def plan_files(videos: Sequence[Video], name: str, kind: Format | None) -> Plan:
    """JSON lines go into one file, subtitles into one per video, in a folder if there are
    several. A name with a slash at its end is a folder. Without a kind, the suffix
    decides. Raises OutputError for a contradiction."""
    output = Path(name)
    is_folder = name.endswith("/") or output.is_dir()
    kind = kind or (Format.JSONL if is_folder else _guess(output))
    journal = output.with_name(f"{output.name}.part")
    if kind is Format.JSONL:
        if is_folder:
            raise OutputError(
                f"{output} is a folder: give a file such as {output / 'captions.jsonl'}, or "
                "--format srt or vtt for a file per video"
            )
        return Plan(kind, {output: tuple(range(len(videos)))}, journal)
    if len(videos) == 1 and not is_folder:
        return Plan(kind, {output: (0,)}, journal)
    if output.suffix == f".{kind}" and not is_folder:
        raise OutputError(
            f"{output}: {len(videos)} videos do not go into one {kind} file; give a folder: "
            f"-o {output.with_suffix('')} --format {kind}"
        )
    if output.exists() and not is_folder:
        raise OutputError(
            f"{output}: {len(videos)} videos need a folder, this is a file"
        )
    return Plan(kind, _name_files(videos, output, kind), journal)


def write_whole(path: Path, pieces: Iterable[str]) -> None:
    """Writes a file next to its place and moves it there. Raises OutputError."""
    temporary = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error


def _guess(output: Path) -> Format:
    try:
        return Format(output.suffix.removeprefix(".").lower())
    except ValueError as error:
        raise OutputError(
            f"{output}: expected a name that ends in .jsonl, .srt or .vtt, or --format"
        ) from error


def _name_files(
    videos: Sequence[Video], folder: Path, kind: Format
) -> dict[Path, tuple[int, ...]]:
    files: dict[Path, tuple[int, ...]] = {}
    for number, video in enumerate(videos):
        path = (folder / video.relative).with_suffix(f".{kind}")
        if path in files:
            other = videos[files[path][0]]
            raise OutputError(
                f"{other.name} and {video.name} would both be written to {path}: caption "
                "them apart"
            )
        files[path] = (number,)
    return files
