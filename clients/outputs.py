"""The files that a run writes. Each is written completely or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from clients.errors import OutputError, explain_disk
from clients.sources import Source
from contract import durable


@dataclass(frozen=True)
class OutputPlan:
    """The plan of outputs: files, and the one that each goes into."""

    #: Each file with the places of its sources in their list.
    files: dict[Path, tuple[int, ...]]
    journal: Path

    def find_existing(self) -> list[Path]:
        return [path for path in self.files if path.exists()]

    def find_file(self, source: int) -> Path:
        """Find the output of a source."""
        return next(path for path, places in self.files.items() if source in places)


def plan_translations(
    sources: Sequence[Source], name: str | None, language: str
) -> tuple[list[Source], OutputPlan]:
    """The sources, and where their translations go: `a.csv` to `a.fr.csv` beside it or in
    the folder `name`, which mirrors the source's, or to the file `name`. A name without a
    suffix is a folder. What an earlier run has written so is no source. Raises OutputError
    for a contradiction."""
    if name and Path(name).suffix and not is_folder(name):
        output = _check_file(sources, Path(name))
        return list(sources), OutputPlan({output: (0,)}, name_journal(output))
    folder = Path(name) if name else None
    if folder and folder.exists() and not folder.is_dir():
        raise OutputError(f"{name}: translations need a folder, this is a file")

    def name_file(source: Source) -> Path:
        beside = source.path if folder is None else folder / source.relative
        return beside.with_name(f"{beside.stem}.{language}{beside.suffix}")

    written = {name_file(source).resolve() for source in sources}
    wanted = [source for source in sources if source.path.resolve() not in written]
    if not wanted:
        raise OutputError(f"{sources[0].name}: each file is another one's translation")
    files = name_files(wanted, name_file)
    return wanted, OutputPlan(files, name_journal(folder or next(iter(files))))


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """A file next to its place, which is moved there at the end. Raises OutputError."""
    with explain_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.create(path) as file:
            yield file


def is_folder(name: str) -> bool:
    """Whether results with this name are a folder's."""
    return name.endswith("/") or Path(name).is_dir()


def name_journal(output: Path) -> Path:
    """Name the journal of a run that writes this file or folder."""
    return output.with_name(f"{output.name}.part")


def _check_file(sources: Sequence[Source], output: Path) -> Path:
    source = sources[0]
    if len(sources) > 1:
        raise OutputError(
            f"{output}: {len(sources)} files do not go into one; give a folder: "
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


def name_files(
    sources: Sequence[Source], name: Callable[[Source], Path]
) -> dict[Path, tuple[int, ...]]:
    """A file for each source. Raises OutputError where two would have the same."""
    files: dict[Path, tuple[int, ...]] = {}
    for number, source in enumerate(sources):
        path = name(source)
        if path in files:
            other = sources[files[path][0]]
            raise OutputError(
                f"{other.name} and {source.name} would both be written to {path}: use two "
                "runs"
            )
        files[path] = (number,)
    return files
