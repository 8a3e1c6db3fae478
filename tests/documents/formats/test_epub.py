"""EPUB: chapters that mix blocks and texts, the language of a book, and copy protection."""

import pytest
from lxml import etree

from documents.errors import DamagedDocument, EncryptedDocument
from tests.documents.formats.packing import pack, unpack
from tests.documents.formats.translating import keep, read, shout, translate

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/a.opf"/></rootfiles></container>'
)
OPF = (
    '<package xmlns="http://www.idpf.org/2007/opf" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>The book</dc:title>'
    "<dc:language>en-GB</dc:language></metadata><manifest>"
    '<item href="text/a%20b.xhtml" media-type="application/xhtml+xml"/>'
    '<item href="../toc.ncx" media-type="application/x-dtbncx+xml"/>'
    '<item href="a.css" media-type="text/css"/></manifest></package>'
)
NCX = '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><text>Chapter one</text></ncx>'
DOCTYPE = (
    '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html PUBLIC '
    '"-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">\n'
)
CHAPTER = "OPS/text/a b.xhtml"


def pack_epub(body: str, attributes: str = "", **more: str) -> bytes:
    html = f'<html xmlns="http://www.w3.org/1999/xhtml"{attributes}>'
    members = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OPS/a.opf": OPF,
        "toc.ncx": NCX,
        CHAPTER: f"{DOCTYPE}{html}<head><title>It</title></head>\n<body>{body}</body></html>\n",
        "OPS/a.css": "p { }",
    }
    return pack(members | more)


AROUND = ["The book", "Chapter one", "It"]


def test_only_the_texts_of_a_chapter_change():
    body = '<p>a <b id="x">b</b><br /></p>\n<div><!-- c --><img src="d"/></div><p></p>'
    source = pack_epub(body)
    before = unpack(source)[CHAPTER].decode()
    after = unpack(translate("a.epub", source, shout))[CHAPTER].decode()
    expected = (
        before.replace(">It<", ">IT<").replace(">a <", ">A <").replace(">b<", ">B<")
    )
    assert after.startswith(DOCTYPE)
    assert etree.canonicalize(after) == etree.canonicalize(expected)
    assert "<p></p>" in after


@pytest.mark.parametrize(("element", "texts"), [("html", []), ("body", ["It"])])
def test_a_whole_chapter_may_stay(element: str, texts: list[str]):
    fixed = unpack(pack_epub("<p>Hello</p>"))[CHAPTER].decode()
    fixed = fixed.replace(f"<{element}", f'<{element} translate="no"')
    assert read("a.epub", pack_epub("", **{CHAPTER: fixed}))[2:] == texts


@pytest.mark.parametrize(
    ("target", "attributes"),
    [("en", ' lang="en-GB"'), ("fr", ' lang="fr"'), ("he", ' lang="he" dir="rtl"')],
)
def test_a_book_says_its_language(target: str, attributes: str):
    chapter = unpack(pack_epub("<p>12</p>", ' lang="en-GB"'))[CHAPTER].decode()
    chapter = chapter.replace("<body", '<body lang="en-GB" dir="ltr"')
    source = pack_epub("", **{CHAPTER: chapter})
    written = unpack(translate("a.epub", source, keep, target))
    said = "en-GB" if target == "en" else target
    assert f"<dc:language>{said}</dc:language>" in written["OPS/a.opf"].decode()
    assert f'xhtml"{attributes}>' in written[CHAPTER].decode()
    direction = "rtl" if target == "he" else "ltr"
    assert f'<body lang="{said}" dir="{direction}">' in written[CHAPTER].decode()


ENC = (
    '<encryption xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData>'
    '<e:EncryptionMethod Algorithm="{}"/></e:EncryptedData></encryption>'
)
HIDDEN = "META-INF/encryption.xml"


def test_hidden_fonts_do_not_protect_a_book():
    fonts = {HIDDEN: ENC.format("http://www.idpf.org/2008/embedding")}
    assert read("a.epub", pack_epub("", **fonts)) == AROUND


AES = "http://www.w3.org/2001/04/xmlenc#aes256-cbc"
INDEX = "META-INF/container.xml"
LOST = {INDEX: CONTAINER.replace("a.opf", "b.opf")}
UNCLOSED = {CHAPTER: "<html><p>a<br></p></html>"}
REFUSED = {
    "protected": ({HIDDEN: ENC.format(AES)}, EncryptedDocument, "protected"),
    "kind": ({"mimetype": "a"}, DamagedDocument, "seems wrong"),
    "no book": ({INDEX: "<a/>"}, DamagedDocument, "not name a book"),
    "missing": (LOST, DamagedDocument, "OPS/b.opf is missing"),
    "HTML that is not XML": (UNCLOSED, DamagedDocument, "a b.xhtml, line 1"),
}


@pytest.mark.parametrize(("more", "error", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_translated_is_told(more, error, said):
    with pytest.raises(error, match=said):
        read("a.epub", pack_epub("", **more))
