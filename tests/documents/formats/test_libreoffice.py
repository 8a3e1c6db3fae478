"""LibreOffice opens what is written, and finds the same structure with the translated texts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from lxml import etree

from deploy.programs import OFFICE
from documents.formats.fragments import name_of
from tests.documents.formats.samples import MAKERS
from tests.documents.formats.translating import shout, translate
from tests.programs import find_or_skip, run

#: The formats into which LibreOffice converts each of the libraries' documents.
OTHERS = {
    ".docx": "odt",
    ".pptx": "odp",
    ".xlsx": "ods",
    ".odt": "docx",
    ".odp": "pptx",
    ".ods": "xlsx",
}
#: Elements that may be divided otherwise after a translation.
LOOSE = {"text:span", "text:soft-page-break", "text:s"}
#: Texts that stay: results of formulas, headings of tables, and what a program works out.
KEPT = re.compile(
    r"Yes|Fruit|Count|https://example.com/a|<number>|Page \d|IT WAS badGOOD"
    r"|Click to edit.*|\w+ level"
)
#: Elements with paragraphs of their own, or without text.
APART = {"draw:frame", "office:annotation", "text:note"}
pytestmark = pytest.mark.slow


class Office:
    """LibreOffice without a window, with its own profile."""

    def __init__(self, folder: Path) -> None:
        writer = [find_or_skip(program) for program in OFFICE][0]
        self._program = writer.with_name("soffice")
        self._folder = folder

    def convert(self, documents: Iterable[Path], kind: str, to: str) -> list[Path]:
        """Converts documents into a folder; each must be there afterwards. All in one start,
        which takes longer than what it converts."""
        documents, out = list(documents), self._folder / to
        profile = f"-env:UserInstallation=file://{self._folder}/profile"
        command = [self._program, profile, "--headless", "--convert-to", kind]
        env = {**os.environ, "HOME": str(self._folder), "TMPDIR": str(self._folder)}
        run(
            *command,
            "--outdir",
            out,
            *documents,
            env=env,
            cwd=self._folder,
            limit_s=300,
        )
        converted = [out / f"{document.stem}.{kind}" for document in documents]
        assert [path.name for path in converted if not path.exists()] == []
        return converted

    def convert_each(self, documents: Iterable[Path]) -> list[Path]:
        """Converts each into the other family's format, under a name of its own."""
        others = [
            other
            for suffix, kind in OTHERS.items()
            for other in self.convert(
                (d for d in documents if d.suffix == suffix), kind, "others"
            )
        ]
        return [
            other.rename(other.with_stem(f"other-{other.stem}")) for other in others
        ]


@pytest.fixture(scope="module")
def flat_pairs(request, tmp_path_factory) -> dict[str, tuple[Path, Path]]:
    """Each document as LibreOffice reads it, in one XML file, before and after its
    translation."""
    folder = tmp_path_factory.mktemp("office")
    office = Office(folder)
    (folder / "made").mkdir()
    documents = [make(folder / "made" / name) for name, make in MAKERS.items()]
    if request.param == "others":
        documents = office.convert_each(documents)
    written = [d.with_name(f"new-{d.name}") for d in documents]
    for source, target in zip(documents, written, strict=True):
        target.write_bytes(translate(source.name, source.read_bytes(), shout, "en"))
    flat = office.convert([*documents, *written], "xml", "flat")
    count = len(documents)
    pairs = zip(flat[:count], flat[count:], strict=True)
    return dict(zip((d.name for d in documents), pairs, strict=True))


#: The libraries' documents, converted by LibreOffice.
CONVERTED = [f"other-{Path(n).stem}.{OTHERS[Path(n).suffix]}" for n in MAKERS]
NAMES = [
    *(pytest.param("made", name, id=name) for name in MAKERS),
    *(
        pytest.param("others", name, id=name, marks=pytest.mark.faults)
        for name in CONVERTED
    ),
]


def read_flat(path: Path) -> tuple[list[str], list[str]]:
    """The structure of a document, and the texts of its paragraphs."""
    parser = etree.XMLParser(huge_tree=True)
    root = etree.parse(str(path), parser).getroot()
    body = next(element for element in root if name_of(element) == "office:body")
    master = next(e for e in root if name_of(e) == "office:master-styles")
    names = [name_of(e) for part in (master, body) for e in part.iter()]
    paragraphs = (
        e for part in (master, body) for e in part.iter() if name_of(e) == "text:p"
    )
    texts = ["".join(list_texts(e)).strip() for e in paragraphs]
    return [name for name in names if name not in LOOSE], [t for t in texts if t]


def list_texts(element: etree._Element) -> Iterator[str]:
    """A paragraph's own text."""
    yield element.text or ""
    for child in element:
        if name_of(child) not in APART:
            yield from list_texts(child)
        yield child.tail or ""


@pytest.mark.parametrize(
    ("flat_pairs", "name"), NAMES, indirect=["flat_pairs"], scope="module"
)
def test_libreoffice_finds_the_same_structure_and_the_translations(flat_pairs, name):
    (structure, texts), (new_structure, new_texts) = map(read_flat, flat_pairs[name])
    assert new_structure == structure
    assert [t.casefold() for t in new_texts] == [t.casefold() for t in texts]
    kept = {t for t in new_texts if any(map(str.islower, t))}
    assert [t for t in kept if not KEPT.fullmatch(t)] == []
    assert set(new_texts) - kept
