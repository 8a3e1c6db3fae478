"""Small documents from hand-written XML, and what is read from them and written."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from documents.formats.format import DocumentContext, Format
from documents.formats.openxml import FORMATS

DOCX, DOCM, PPTX, PPTM, XLSX, XLSM = FORMATS
_MICROSOFT = "http://schemas.openxmlformats.org"
W, A, P, X = (
    f"{_MICROSOFT}/{name}/2006/main"
    for name in "wordprocessingml drawingml presentationml spreadsheetml".split()
)
_MC = f"{_MICROSOFT}/markup-compatibility/2006"
#: The types of the document and of its layouts.
MAIN, LAYOUT = "wordprocessingml.document.main+xml", "presentationml.slideLayout+xml"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_DOCUMENT = "application/vnd.openxmlformats-officedocument."


def pack(path: Path, members: Mapping[str, str | bytes]) -> Path:
    """A zip file with these members in order."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return path


def pack_openxml(path: Path, parts: Mapping[str, tuple[str, str | bytes]]) -> Path:
    """Office Open XML: its parts with the last words of their types and their content."""
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{_DOCUMENT}{kind}"/>'
        for name, (kind, _) in parts.items()
    )
    types = f'<Types xmlns="{_TYPES}">{overrides}</Types>'
    contents = {name: content for name, (_, content) in parts.items()}
    return pack(path, {"[Content_Types].xml": types, **contents})


def pack_docx(folder: Path, paragraph: str, namespace: str = W) -> Path:
    """A text document of one paragraph."""
    document = (
        f'<?xml version="1.0" standalone="yes"?>\n<w:document xmlns:w="{namespace}" '
        f'xmlns:mc="{_MC}"  xmlns:r="urn:r"><w:body><w:p>{paragraph}</w:p></w:body>'
        "</w:document>"
    )
    return pack_openxml(folder / "a.docx", {"word/document.xml": (MAIN, document)})


def pack_pptx(folder: Path, inner: str, kind: str = "presentationml.slide+xml") -> Path:
    """A presentation of one slide, or of one layout."""
    part = f'<p:sld xmlns:a="{A}" xmlns:p="{P}" xmlns:r="urn:r">{inner}</p:sld>'
    main = ("presentationml.presentation.main+xml", "<p/>")
    parts = {"ppt/presentation.xml": main, "ppt/a.xml": (kind, part)}
    return pack_openxml(folder / "a.pptx", parts)


def pack_xlsx(
    folder: Path, strings: str = "", sheet: str = "", table: str = ""
) -> Path:
    """A spreadsheet with these shared texts, cells and columns of a table."""
    parts = {
        "workbook.xml": ("sheet.main", "<workbook/>"),
        "sheet.xml": ("worksheet", f'<worksheet xmlns="{X}">{sheet}</worksheet>'),
        "strings.xml": ("sharedStrings", f'<sst xmlns="{X}">{strings}</sst>'),
        "table.xml": ("table", f'<table xmlns="{X}">{table}</table>'),
    }
    typed = {n: (f"spreadsheetml.{kind}+xml", c) for n, (kind, c) in parts.items()}
    return pack_openxml(folder / "a.xlsx", typed)


def translate(
    form: Format, source: Path, change: Callable[[str], str], language: str = "en"
) -> Path:
    """The file that is written with each text changed."""
    texts = list(form.read(source, DocumentContext("de")))
    number = len(list(source.parent.iterdir()))
    target = source.with_name(f"{number}-{source.name}")
    form.write(source, map(change, texts), target, DocumentContext(language))
    return target


def unpack(path: Path) -> dict[str, bytes]:
    """The content of each member, in order."""
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}
