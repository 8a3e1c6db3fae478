"""Blocks of a part preserve every byte, in any encoding and wherever a read ends."""

import io
from dataclasses import replace

import pytest

from documents.errors import DamagedDocument, DocumentTooLarge, RefusedContent
from documents.formats import blocks
from documents.formats.blocks import Block, ElementNames, split
from tests.documents.formats.packing import find_group

DC = "http://purl.org/dc/elements/1.1/"
TITLES = ElementNames(
    frozenset({"dc:title"}), lambda _: [], lambda name, _: name == "skip"
)

CASES = find_group("part.xml")["blocks"]


def read(content: bytes) -> list[bytes | Block]:
    return list(split(io.BytesIO(content), TITLES, "part.xml"))


def find_blocks(content: str, encoding: str = "utf-8") -> list[Block]:
    return [p for p in read(content.encode(encoding)) if isinstance(p, Block)]


@pytest.mark.parametrize(
    ("encoding", "size"),
    [("utf-8", 2), ("utf-8-sig", 7), ("utf-16", 1 << 16), ("utf-16-be", 7)],
)
@pytest.mark.parametrize(("text", "count"), CASES.values(), ids=CASES)
def test_all_bytes_come_back(monkeypatch, text, count, size, encoding):
    monkeypatch.setattr(blocks, "_CHUNK_BYTES", size)
    content = text.format(DC).encode(encoding)
    pieces = read(content)
    found = [piece for piece in pieces if isinstance(piece, Block)]
    assert b"".join(p.raw if isinstance(p, Block) else p for p in pieces) == content
    assert len(found) == count
    for block in found:
        again = replace(block, raw=block.serialize(block.parse()))
        old, new = ([e.text for e in b.parse().iter()] for b in (block, again))
        assert new == old


def test_signs_that_an_encoding_lacks_are_written_as_numbers():
    content = (
        f"<?xml version='1.0' encoding='ISO-8859-1'?><title xmlns='{DC}'>é</title>"
    )
    (block,) = find_blocks(content, "latin-1")
    wrapper = block.parse()
    assert wrapper[0].text == "é"
    wrapper[0].text = "é語"
    assert block.serialize(wrapper).endswith(b">\xe9&#35486;</title>")


def test_a_name_of_html_is_a_letter_where_the_document_says_it_is_html():
    doctype = (
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://nowhere.invalid/">'
    )
    content = f"{doctype}<title xmlns='{DC}'>a&nbsp;b &amp; &eacute;<![CDATA[&nbsp;]]></title>"
    (block,) = find_blocks(content)
    assert block.parse()[0].text == "a\u00a0b & é&nbsp;"


def test_an_instruction_of_a_megabyte_that_opens_comments_is_read_once_and_kept():
    said = "&eacute;" + "<!--" * 250_000
    (block,) = find_blocks(f"<title xmlns='{DC}'>a<?x {said}?></title>")
    assert block.parse()[0][0].text == said


DEEP = blocks.MAX_DEPTH + 1
BILLION = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


REFUSED = {
    f'<!DOCTYPE r [<!ENTITY l0 "lol">{BILLION}]><r>&l9;</r>': "part.xml: declares an entity",
    '<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/passwd">]><r>&f;</r>': "declares an entity",
    '<!DOCTYPE r [<!ENTITY % p SYSTEM "http://nowhere.invalid/">%p;]><r/>': "declares an",
    '<!DOCTYPE r SYSTEM "http://nowhere.invalid/a.dtd"><r/>': "external DTD",
    "<a>" * DEEP: "deep",
    f"<title xmlns='{DC}'>{'<a>' * DEEP}": "deep",
    f"<r xmlns:a='{'u' * 1_001}'/>": "namespace has more than 1,000",
    "<r {}/>".format(" ".join(f"a{n}=''" for n in range(4_001))): "4,000 attributes",
}
DAMAGED = {
    "<r>&f;</r>": "undefined entity",
    "<r>\n<a></r>": "line 2: .*mismatched",
    "<r>": "no element found",
    "": "no element found",
    '<?xml version="1.0" encoding="utf-7"?><r/>': "'utf-7'.*expected UTF-8",
    '<?xml version="1.0" encoding="none"?><r/>': "'none'.*expected UTF-8",
    f"<!DOCTYPE r PUBLIC 'a' 'b'><title xmlns='{DC}'>&bogus;</title>": "line 1: Entity 'bogus'",
}
LARGE = {
    f"<title xmlns='{DC}'>{'<a/>' * (blocks.MAX_ELEMENTS + 1)}</title>": "250,000 elements"
}
KINDS = {RefusedContent: REFUSED, DamagedDocument: DAMAGED, DocumentTooLarge: LARGE}
FAULTS = [(error, *case) for error, cases in KINDS.items() for case in cases.items()]


@pytest.mark.parametrize(
    ("error", "content", "said"), FAULTS, ids=[said for *_, said in FAULTS]
)
def test_hostile_and_damaged_xml_is_told(error, content: str, said: str):
    with pytest.raises(error, match=said):
        [block.parse() for block in find_blocks(content)]


def test_a_block_has_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "MAX_BLOCK_BYTES", 1 << 20)
    with pytest.raises(DocumentTooLarge, match="more than 1 MiB"):
        read(f"<title xmlns='{DC}'>{'a' * (1 << 21)}</title>".encode())


def test_what_is_between_blocks_has_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "MAX_BLOCK_BYTES", 1 << 17)
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", 10)
    content = f"<r><skip>{'<a>b</a>' * (1 << 17)}</skip></r>".encode()
    pieces = (bytes(p) for p in read(content) if not isinstance(p, Block))
    assert b"".join(pieces) == content


def test_a_block_declares_only_the_namespaces_that_it_uses():
    declared = "".join(f' xmlns:a{n}="urn:{n}"' for n in range(2_000))
    content = f"<r{declared} xmlns:d='{DC}'><d:title a7:b='c'><a9:c/></d:title></r>"
    (block,) = find_blocks(content)
    wrapper = block.parse()
    assert set(wrapper.nsmap) == {"d", "a7", "a9"}
    assert block.serialize(wrapper) == b'<d:title a7:b="c"><a9:c/></d:title>'
