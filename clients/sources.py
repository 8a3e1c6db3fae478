"""Resolves files, folders and patterns to the files of a run."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from clients.errors import InputError


@dataclass(frozen=True)
class SourceKind:
    """The kind of files that a command is for."""

    name: str
    #: The endings that count in a folder. A file that is named itself may be called
    #: anything.
    suffixes: frozenset[str]

    def includes(self, file: PurePath) -> bool:
        """Whether a file of that name counts in a folder."""
        is_hidden = file.name.startswith(".") or _is_lock(file)
        return file.suffix.lower() in self.suffixes and not is_hidden


def _list_suffixes(text: str) -> frozenset[str]:
    return frozenset(f".{suffix}" for suffix in text.split())


VIDEOS = SourceKind(
    "video",
    _list_suffixes("3gp avi flv m2ts m4v mkv mov mp4 mpeg mpg mts ogv ts webm wmv"),
)
TABLES = SourceKind("file of texts", _list_suffixes("txt jsonl csv tsv parquet"))
DOCUMENTS = SourceKind(
    "document",
    _list_suffixes(
        "txt text md markdown html htm docx pptx xlsx odt ods odp epub srt vtt po pot xliff "
        "xlf json csv tsv"
    ),
)


@dataclass(frozen=True)
class Source:
    """A file, with its size and time of change."""

    path: Path
    #: Below the folder that was named; the file's name where it was named itself.
    relative: Path
    size_bytes: int
    modified_ns: int
    #: The URL of a source outside of a file system.
    url: str = ""

    @property
    def name(self) -> str:
        return self.url or self.path.as_posix()

    def has_changed(self) -> bool:
        """Whether it is another file by now, or none."""
        try:
            status = self.path.stat()
        except OSError:
            return True
        return (status.st_size, status.st_mtime_ns) != (
            self.size_bytes,
            self.modified_ns,
        )


def find_sources(arguments: Sequence[str], kind: SourceKind) -> list[Source]:
    """The files of all arguments, each once, a folder's sorted. Raises InputError."""
    found: dict[Path, Source] = {}
    for argument in arguments:
        for path, relative in _expand(argument, kind):
            status = path.stat()
            source = Source(path, relative, status.st_size, status.st_mtime_ns)
            found.setdefault(path.resolve(), source)
    return list(found.values())


def _expand(argument: str, kind: SourceKind) -> Iterator[tuple[Path, Path]]:
    """Path and relative path of each file. Raises InputError if there is none."""
    path = Path(argument)
    if path.is_file():
        return iter([(path, Path(path.name))])
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if _is_wanted(file, kind))
        if not files:
            raise InputError(
                f"{argument}: the folder holds no {kind.name} "
                f"({' '.join(sorted(kind.suffixes))})"
            )
        return ((file, file.relative_to(path)) for file in files)
    if not set("*?[") & set(argument):
        raise InputError(f"{argument}: no such file or folder")
    matches = map(Path, sorted(glob.glob(argument, recursive=True)))
    files = [match for match in matches if match.is_file() and not _is_lock(match)]
    if not files:
        raise InputError(f"{argument}: no file matches this pattern")
    return ((file, Path(file.name)) for file in files)


def _is_wanted(file: Path, kind: SourceKind) -> bool:
    return kind.includes(file) and file.is_file()


def _is_lock(file: PurePath) -> bool:
    """Office programs lock `a.docx` with a file that is called `~$a.docx`."""
    return file.name.startswith("~$")
