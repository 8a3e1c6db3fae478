"""OpenDocument: mixed content, automatic styles, and cells that formulas fill."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents.errors import DamagedDocument, EncryptedDocument, RefusedContent
from documents.formats.opendocument import FORMATS
from tests.documents.formats.packing import mark, pack, translate, unpack

ODT, ODS, ODP = FORMATS
OASIS = "urn:oasis:names:tc:opendocument:xmlns"
LOEXT = "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"
MANIFEST = f'<m:manifest xmlns:m="{OASIS}:manifest:1.0">{{}}</m:manifest>'
DECLARED = " ".join(
    f'xmlns:{name}="{OASIS}:{name if name != "draw" else "drawing"}:1.0"'
    for name in ("office", "text", "table", "draw", "style")
)
LOOK = '<style:style style:name="{}" style:family="text">{}</style:style>'
STYLES = "".join(
    (
        LOOK.format("bold", '<style:text-properties a="b"/>'),
        LOOK.format("bold2", '<style:text-properties a="b" xmlns:o="u" o:rsid="1"/>'),
        LOOK.format("rev", '<style:text-properties xmlns:o="u" o:rsid="2"/>'),
        LOOK.format('child" style:parent-style-name="named', ""),
    )
)


def pack_odf(folder: Path, body: str, kind: str = "text", **more: str) -> Path:
    content = (
        f"<office:document-content {DECLARED}><office:automatic-styles>{STYLES}"
        f"</office:automatic-styles><office:body>{body}</office:body>"
        "</office:document-content>"
    )
    members = {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": content,
        "META-INF/manifest.xml": MANIFEST.format(""),
    }
    return pack(folder / "a.odf", members | more)


def span(style: str, text: str) -> str:
    return f'<text:span text:style-name="{style}">{text}</text:span>'


NOTE = (
    "<text:note><text:note-citation>1</text:note-citation><text:p>A note</text:p>"
    "</text:note>"
)
CASES = {
    "plain": ("Hello", ["Hello"]),
    "bold": (f"Press {span('bold', 'Go')}!", ['Press <g id="1">Go</g>!']),
    "all bold": (span("bold", "Hello"), ["Hello"]),
    "the same look": (span("bold", "Hel") + span("bold2", "lo"), ["Hello"]),
    "the same look in a sentence": (
        f"a {span('bold', 'Hel')}{span('bold2', 'lo')} b",
        ['a <g id="1">Hello</g> b'],
    ),
    "only a revision": (f"He{span('rev', 'llo')} there", ["Hello there"]),
    "another style": (f"He{span('named', 'llo')}", ['He<g id="1">llo</g>']),
    "a style with a parent": (f"He{span('child', 'llo')}", ['He<g id="1">llo</g>']),
    "a space in bold": (f"one{span('bold', ' ')}two", ["one two"]),
    "an empty span": (f"one{span('bold', '')} two", ['one<x id="1"/> two']),
    "white space": ("one\n   two", ["one two"]),
    "a link": ("See <text:a>it</text:a>.", ['See <g id="1">it</g>.']),
    "a content control": (
        f'Make <c:content-control xmlns:c="{LOEXT}">it</c:content-control>',
        ['Make <g id="1">it</g>'],
    ),
    "a tab and a break": ("one<text:tab/><text:line-break/>two", ['one<x id="1"/>two']),
    "a page break of the last layout": ("one<text:soft-page-break/> two", ["one two"]),
    "a note": (f"Text{NOTE} goes on", ['Text<x id="1"/> goes on', "A note"]),
    "a box": (
        "<draw:frame><draw:text-box><text:p>In a box</text:p></draw:text-box></draw:frame>",
        ["In a box"],
    ),
    "a field": ("Page <text:page-number>7</text:page-number>.", ['Page <x id="1"/>.']),
    "ruby": (
        "see <text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>kan"
        "</text:ruby-text></text:ruby>字",
        ["see 漢字"],
    ),
    "a comment of XML": ("one <!-- two --> three", ['one <x id="1"/> three']),
    "a number": ("12", []),
}


@pytest.mark.parametrize(("inner", "texts"), CASES.values(), ids=CASES)
def test_a_paragraph_is_one_text(tmp_path: Path, inner: str, texts: list[str]):
    source = pack_odf(tmp_path, f"<text:p>{inner}</text:p>")
    assert list(ODT.read(source, "de")) == texts
    written = translate(ODT, source, mark)
    assert list(ODT.read(written, "de")) == [mark(text) for text in texts]
    assert unpack(translate(ODT, source, str)) == unpack(source)


def test_words_change_places_and_keep_their_formats(tmp_path: Path):
    inner = f"See {span('bold', 'the page')}<text:tab/>or <text:a>it</text:a>."
    source = pack_odf(tmp_path, f"<text:p>{inner}</text:p>")
    new = '<g id="3">Das</g> oder<x id="2"/> <g id="1">die Seite</g>'
    written = unpack(translate(ODT, source, lambda _: new))["content.xml"].decode()
    bold = span("bold", "die Seite")
    expected = f"<text:p><text:a>Das</text:a> oder<text:tab/> {bold}</text:p>"
    assert expected in written


def test_deleted_texts_are_not_read(tmp_path: Path):
    body = "<text:tracked-changes><text:p>old</text:p></text:tracked-changes>"
    assert list(ODT.read(pack_odf(tmp_path, body), "de")) == []


@pytest.mark.parametrize(
    ("attributes", "texts"),
    [
        ('office:value-type="string"', ["Hello"]),
        ("", ["Hello"]),
        ('office:value-type="date"', []),
        ('table:formula="of:=A1" office:value-type="string"', []),
    ],
    ids=["text", "no type", "date", "formula"],
)
def test_cells_with_results_stay(tmp_path: Path, attributes: str, texts: list[str]):
    cell = f"<table:table-cell {attributes}><text:p>Hello</text:p></table:table-cell>"
    source = pack_odf(tmp_path, cell, "spreadsheet")
    assert list(ODS.read(source, "de")) == texts


ENCRYPTED = MANIFEST.format("<m:file-entry><m:encryption-data/></m:file-entry>")


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"META-INF/manifest.xml": ENCRYPTED}, EncryptedDocument, "without password"),
        ({"Basic/Standard/a.xml": ""}, RefusedContent, "macros"),
        ({"Scripts/a.py": ""}, RefusedContent, "macros"),
        ({"mimetype": "text/plain"}, DamagedDocument, "Not what its name"),
    ],
    ids=["encrypted", "Basic", "Python", "kind"],
)
def test_what_is_not_translated_is_told(
    tmp_path: Path, more: dict[str, str], error: type[Exception], said: str
):
    with pytest.raises(error, match=said):
        list(ODT.read(pack_odf(tmp_path, "", **more), "de"))
