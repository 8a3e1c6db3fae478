"""Small documents from hand-written XML."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_TEXT = '<w:t xml:space="preserve">'
#: Abbreviations in the cases, and the XML that replaces them.
_SHORT = {
    "<run>": f"<w:r>{_TEXT}",
    "<bold>": f"<w:r><w:rPr><w:b/></w:rPr>{_TEXT}",
    "</run>": "</w:t></w:r>",
    **{
        f"<{kind}/>": f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'
        for kind in ("begin", "separate", "end")
    },
}


def _read_cases() -> Any:
    text = Path(__file__).with_name("cases.yaml").read_text("utf-8")
    for short, whole in _SHORT.items():
        text = text.replace(short, whole)
    # Every process that collects tests parses this; the C parser needs an eighth of the time.
    return yaml.load(text, yaml.CSafeLoader)


#: Cases of each format.
GROUPS = _read_cases()

_MICROSOFT = "http://schemas.openxmlformats.org"
W, A, P, X = (
    f"{_MICROSOFT}/{name}/2006/main"
    for name in "wordprocessingml drawingml presentationml spreadsheetml".split()
)
_MC = f"{_MICROSOFT}/markup-compatibility/2006"
#: The content types of a text document and of a slide layout, without `_DOCUMENT`.
MAIN, LAYOUT = "wordprocessingml.document.main+xml", "presentationml.slideLayout+xml"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_DOCUMENT = "application/vnd.openxmlformats-officedocument."


def find_group(name: str) -> dict[str, Any]:
    """Return the group of cases with this name, such as `a.docx`."""
    return next(group for group in GROUPS if group["name"] == name)


def pack(members: Mapping[str, str | bytes]) -> bytes:
    """A zip file with these members in order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return packed.getvalue()


def pack_openxml(parts: Mapping[str, tuple[str, str | bytes]]) -> bytes:
    """An Office Open XML package. Each part has the last words of its type, and its content."""
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{_DOCUMENT}{kind}"/>'
        for name, (kind, _) in parts.items()
    )
    types = f'<Types xmlns="{_TYPES}">{overrides}</Types>'
    contents = {name: content for name, (_, content) in parts.items()}
    return pack({"[Content_Types].xml": types, **contents})


def pack_docx(paragraph: str, namespace: str = W) -> bytes:
    """A text document of one paragraph."""
    document = (
        f'<?xml version="1.0" standalone="yes"?>\n<w:document xmlns:w="{namespace}" '
        f'xmlns:mc="{_MC}"  xmlns:r="urn:r"><w:body><w:p>{paragraph}</w:p></w:body>'
        "</w:document>"
    )
    return pack_openxml({"word/document.xml": (MAIN, document)})


def pack_pptx(inner: str, kind: str = "presentationml.slide+xml") -> bytes:
    """A presentation of one slide, or of one layout."""
    part = f'<p:sld xmlns:a="{A}" xmlns:p="{P}" xmlns:r="urn:r">{inner}</p:sld>'
    main = ("presentationml.presentation.main+xml", "<p/>")
    parts = {"ppt/presentation.xml": main, "ppt/a.xml": (kind, part)}
    return pack_openxml(parts)


def pack_xlsx(strings: str = "", sheet: str = "", table: str = "") -> bytes:
    """A spreadsheet with these shared strings, cells and table columns."""
    parts = {
        "workbook.xml": ("sheet.main", "<workbook/>"),
        "sheet.xml": ("worksheet", f'<worksheet xmlns="{X}">{sheet}</worksheet>'),
        "strings.xml": ("sharedStrings", f'<sst xmlns="{X}">{strings}</sst>'),
        "table.xml": ("table", f'<table xmlns="{X}">{table}</table>'),
    }
    typed = {n: (f"spreadsheetml.{kind}+xml", c) for n, (kind, c) in parts.items()}
    return pack_openxml(typed)


def unpack(content: bytes) -> dict[str, bytes]:
    """The content of each member, in order."""
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}
