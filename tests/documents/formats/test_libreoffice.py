"""LibreOffice opens translated documents, and finds the old structure and the new texts."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from deploy.programs import OFFICE
from documents.formats.fragments import name_of
from tests.documents.formats.samples import MAKERS
from tests.documents.formats.translating import shout, translate
from tests.programs import find_or_skip, run

#: The format to which LibreOffice converts documents with each suffix.
OTHERS = {".docx": "odt", ".pptx": "odp", ".xlsx": "ods"}
OTHERS |= {f".{kind}": suffix[1:] for suffix, kind in OTHERS.items()}
#: Elements whose number may change in a translation.
LOOSE = {"text:span", "text:soft-page-break", "text:s"}
#: Texts that stay: results of formulas, headings of tables, and text that a program generates.
KEPT = re.compile(
    r"Yes|Fruit|Count|https://example.com/a|<number>|Page \d|IT WAS badGOOD"
    r"|Click to edit.*|\w+ level"
)
#: Elements with separate paragraphs, or without text.
APART = {"draw:frame", "office:annotation", "text:note"}
pytestmark = pytest.mark.slow


def convert(folder: Path, documents: list[Path], kind: str, to: str) -> list[Path]:
    """Convert documents with LibreOffice, in a new profile, and check that all results exist.
    One start converts all of them, because it takes longer than the conversions."""
    writer, *_ = [find_or_skip(program) for program in OFFICE]
    profile = f"-env:UserInstallation=file://{folder}/profile"
    options = [profile, "--headless", "--convert-to", kind, "--outdir", folder / to]
    env = os.environ | {"HOME": str(folder), "TMPDIR": str(folder)}
    command = [writer.with_name("soffice"), *options, *documents]
    run(*command, env=env, cwd=folder, limit_s=300)
    converted = [folder / to / f"{document.stem}.{kind}" for document in documents]
    assert [path.name for path in converted if not path.exists()] == []
    return converted


def convert_each(folder: Path, documents: list[Path]) -> list[Path]:
    """Convert each document to the other family's format, under a new name."""
    others = []
    for suffix, kind in OTHERS.items():
        some = [document for document in documents if document.suffix == suffix]
        others += convert(folder, some, kind, "others")
    return [other.rename(other.with_stem(f"other-{other.stem}")) for other in others]


@pytest.fixture(scope="module")
def flat_pairs(request, tmp_path_factory) -> dict[str, tuple[Path, Path]]:
    """Each document as LibreOffice's flat XML, before and after its translation."""
    folder = tmp_path_factory.mktemp("office")
    (folder / "made").mkdir()
    documents = [make(folder / "made" / name) for name, make in MAKERS.items()]
    if request.param == "others":
        documents = convert_each(folder, documents)
    written = [d.with_name(f"new-{d.name}") for d in documents]
    for source, target in zip(documents, written, strict=True):
        target.write_bytes(translate(source.name, source.read_bytes(), shout, "en"))
    flat = convert(folder, [*documents, *written], "xml", "flat")
    count = len(documents)
    pairs = zip(flat[:count], flat[count:], strict=True)
    return dict(zip((d.name for d in documents), pairs, strict=True))


#: The names of the samples after their conversion by LibreOffice.
CONVERTED = [f"other-{Path(n).stem}.{OTHERS[Path(n).suffix]}" for n in MAKERS]
NAMES = [
    *(pytest.param("made", name, id=name) for name in MAKERS),
    *(
        pytest.param("others", name, id=name, marks=pytest.mark.faults)
        for name in CONVERTED
    ),
]


def read_flat(path: Path) -> tuple[list[str], list[str]]:
    """Return the element names of a flat document, and the texts of its paragraphs."""
    root = etree.parse(str(path), etree.XMLParser(huge_tree=True)).getroot()
    named = {name_of(element): element for element in root}
    parts = (named["office:master-styles"], named["office:body"])
    elements = [element for part in parts for element in part.iter()]
    texts = ["".join(list_texts(e)).strip() for e in elements if name_of(e) == "text:p"]
    names = map(name_of, elements)
    return [name for name in names if name not in LOOSE], [t for t in texts if t]


def list_texts(element: etree._Element) -> Iterator[str]:
    """Yield the pieces of a paragraph's own text."""
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
