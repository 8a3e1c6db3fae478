"""The files of a run: the sources named by its arguments, and the outputs, each written
completely or not at all.
"""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from clients.errors import InputError, OutputError, explain_disk
from contract import durable


@dataclass(frozen=True)
class SourceKind:
    """The kind of file that a command accepts."""

    name: str
    #: The suffixes of its files in a folder. A file named by an argument may have any other.
    suffixes: frozenset[str]

    def includes(self, file: PurePath) -> bool:
        """Whether a folder's file with this relative path is a source."""
        is_hidden = any(p.startswith(".") for p in file.parts) or _is_lock(file)
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
        "txt text md markdown html htm docx docm pptx pptm xlsx xlsm odt ods odp epub srt "
        "vtt po pot xliff xlf json arb csv tsv"
    ),
)


@dataclass(frozen=True)
class Source:
    """A file, with its size and modification time."""

    path: Path
    #: The path below the argument's folder; the name of a file that was itself an argument.
    relative: Path
    size_bytes: int
    modified_ns: int
    #: The URL of a source that is not in a file system.
    url: str = ""

    @property
    def name(self) -> str:
        return self.url or self.path.as_posix()

    def has_changed(self) -> bool:
        """Whether the file has since been changed or removed."""
        try:
            status = self.path.stat()
        except OSError:
            return True
        known = self.size_bytes, self.modified_ns
        return (status.st_size, status.st_mtime_ns) != known


def find_sources(arguments: Sequence[str], kind: SourceKind) -> list[Source]:
    """Return the files of all arguments, each once, a folder's sorted. Raises InputError."""
    found: dict[Path, Source] = {}
    for argument in arguments:
        try:
            for path, relative in _expand(argument, kind):
                status = path.stat()
                source = Source(path, relative, status.st_size, status.st_mtime_ns)
                found.setdefault(path.resolve(), source)
        except OSError as error:
            place = error.filename or argument
            raise InputError(f"{place}: {error.strerror}") from error
    return list(found.values())


def _expand(argument: str, kind: SourceKind) -> list[tuple[Path, Path]]:
    """Return the path and relative path of each file. Raises InputError if there is none."""
    path = Path(argument)
    if path.is_file():
        return [(path, Path(path.name))]
    if path.is_dir():
        walked = os.walk(path, onerror=_fail)
        found = (Path(folder, name) for folder, _, names in walked for name in names)
        below = [(file, file.relative_to(path)) for file in sorted(found)]
        pairs = [pair for pair in below if kind.includes(pair[1]) and pair[0].is_file()]
        suffixes = " ".join(sorted(kind.suffixes))
        missing = f"the folder contains no {kind.name} ({suffixes})"
    else:
        matches = map(Path, sorted(glob.glob(argument, recursive=True)))
        files = [match for match in matches if match.is_file() and not _is_lock(match)]
        pairs = [(file, Path(file.name)) for file in files]
        is_pattern = glob.has_magic(argument)
        missing = (
            "no file matches this pattern" if is_pattern else "no such file or folder"
        )
    if not pairs:
        raise InputError(f"{argument}: {missing}")
    return pairs


def _fail(error: OSError) -> None:
    raise error


def _is_lock(file: PurePath) -> bool:
    """Whether this is an office program's lock file: `a.docx` has `~$a.docx`."""
    return file.name.startswith("~$")


@dataclass(frozen=True)
class OutputPlan:
    """The outputs of a run, and its journal."""

    #: The output of each source, in their order; several sources may share one.
    files: Sequence[Path]
    journal: Path


def plan_translations(
    sources: Sequence[Source], name: str | None, language: str
) -> tuple[list[Source], OutputPlan]:
    """Return the sources and their outputs: for `a.csv`, `a.fr.csv` next to it or in the folder
    `name`, which mirrors the source's, or the file `name`. A name without a suffix is a folder.
    Outputs of an earlier run are not sources. Raises OutputError for a contradiction."""
    if name and Path(name).suffix and not is_folder(name):
        output = _check_file(sources, Path(name))
        return list(sources), OutputPlan([output], name_journal(output))
    folder = Path(name) if name else None
    if folder and folder.exists() and not folder.is_dir():
        raise OutputError(f"{name}: translations need a folder, not a file")

    def name_file(source: Source) -> Path:
        beside = source.path if folder is None else folder / source.relative
        return beside.parent / f"{beside.stem}.{language}{beside.suffix}"

    written = {name_file(source).resolve() for source in sources}
    wanted = [source for source in sources if source.path.resolve() not in written]
    if not wanted:
        raise OutputError(f"{sources[0].name}: each file is a translation of another")
    files = name_files(wanted, name_file)
    return wanted, OutputPlan(files, name_journal(folder or files[0]))


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file and move it to `path` at the end. Raises OutputError."""
    with explain_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.create(path) as file:
            yield file


def is_folder(name: str) -> bool:
    """Whether an output with this name is a folder."""
    return name.endswith("/") or Path(name).is_dir()


def name_journal(output: Path) -> Path:
    """Return the path of the journal of a run that writes this file or folder."""
    return Path(f"{output.parent / durable.shorten(output.name)}.part")


def _check_file(sources: Sequence[Source], output: Path) -> Path:
    source = sources[0]
    if len(sources) > 1:
        raise OutputError(
            f"{output}: {len(sources)} files cannot be written to one; give a folder: "
            f"-o {output.with_suffix('')}/"
        )
    if output.suffix.lower() != source.path.suffix.lower():
        raise OutputError(
            f"{output}: expected a name that ends in {source.path.suffix} as "
            f"{source.name} does, or a folder such as {output}/"
        )
    if output.resolve() == source.path.resolve():
        raise OutputError(f"{output}: the translation would replace its source")
    return output


def name_files(sources: Sequence[Source], name: Callable[[Source], Path]) -> list[Path]:
    """Return an output for each source. Raises OutputError if two sources would share one."""
    files: dict[Path, Source] = {}
    for source in sources:
        path = name(source)
        if other := files.get(path):
            raise OutputError(
                f"{other.name} and {source.name} would both be written to {path}: use "
                "separate runs"
            )
        files[path] = source
    return list(files)
