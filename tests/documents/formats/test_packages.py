"""Zip files: hostile and damaged ones are refused, and members keep their contents."""

import random
import struct
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from documents.errors import (
    DamagedDocument,
    DocumentError,
    DocumentTooLarge,
    EncryptedDocument,
    LostMarkup,
    RefusedContent,
)
from documents.formats import find_format, packages
from documents.formats.format import LOST_READINGS, DocumentContext
from tests.documents.formats.packing import (
    pack,
    pack_docx,
    pack_pptx,
    pack_xlsx,
    unpack,
)
from tests.documents.formats.paragraphs import RUBY, run, shape
from tests.documents.formats.translating import keep, read, shout, translate
from tests.programs import run as run_program

GOOD = pack_docx(run("Hello"))
DOCX = find_format("a.docx")
OLE = bytes.fromhex("d0cf11e0a1b11ae1")
ENCRYPTED = bytes(600) + "EncryptedPackage".encode("utf-16-le")
#: The signatures of a member's two headers, with the offsets of the flags; the method follows.
LOCAL, CENTRAL = (b"PK\3\4", 6), (b"PK\1\2", 8)


@cache
def make_bomb() -> bytes:
    return pack({"word/document.xml": bytes(80 << 20)})


@cache
def pack_many() -> bytes:
    return pack(dict.fromkeys(map(str, range(packages.MAX_MEMBERS + 1)), b""))


def change_headers(content: bytes, offset: int, value: int) -> bytes:
    """Set a two-byte field in the headers of all members, `offset` bytes after the flags."""
    changed = bytearray(content)
    for signature, place in (LOCAL, CENTRAL):
        at = changed.find(signature)
        while at >= 0:
            struct.pack_into("<H", changed, at + place + offset, value)
            at = changed.find(signature, at + 4)
    return bytes(changed)


def zip_twice() -> bytes:
    return pack({"a.xml": b"1", "b.xml": b"2"}).replace(b"b.xml", b"a.xml")


def break_member(content: bytes) -> bytes:
    """Overwrite packed bytes of the last member, and leave its directory entry unchanged."""
    at = content.rfind(b"PK\3\4") + 60
    return content[:at] + bytes(40) + content[at + 40 :]


def change_end(content: bytes, offset: int, value: int) -> bytes:
    """Set a four-byte field in the end record of the directory."""
    at = content.rfind(b"PK\5\6") + offset
    return content[:at] + struct.pack("<I", value) + content[at + 4 :]


Make = Callable[[bytes], bytes]
#: The error, a function that turns a good document into a bad one, and words of the message.
HOSTILE: list[tuple[type[DocumentError], Make, str]] = [
    (DamagedDocument, lambda _: b"Hello", "not a zip file"),
    (DamagedDocument, lambda _: OLE + bytes(600), "before 2007"),
    (
        DamagedDocument,
        lambda good: change_headers(good, 2, 12),
        "method 12: expected 0",
    ),
    (DamagedDocument, lambda good: good[:-40], "damaged: File is not a zip"),
    (DamagedDocument, lambda good: good.replace(b"PK\1\2", b"PK\1\3"), "damaged"),
    (DamagedDocument, lambda good: change_end(good, 16, 1 << 20), "offset|damaged"),
    (DamagedDocument, lambda good: change_headers(good, -2, 99), "version 9.9"),
    (DamagedDocument, lambda _: pack({"a": b""}), "Content_Types|mimetype"),
    (EncryptedDocument, lambda _: OLE + ENCRYPTED, "save it without a password"),
    (EncryptedDocument, lambda good: change_headers(good, 0, 1), "save it without"),
    (DamagedDocument, lambda good: change_end(good, 12, 1 << 30), "Bad magic|damaged"),
    (DocumentTooLarge, lambda _: pack_many(), "20001 parts: expected at most 20000"),
    (RefusedContent, lambda _: zip_twice(), "two members"),
    (RefusedContent, lambda _: pack({"a/../../b": b""}), "outside its folder"),
    (RefusedContent, lambda _: pack({"/etc/a": b""}), "outside its folder"),
    (RefusedContent, lambda _: pack({"c:\\a": b""}), "outside its folder"),
    (RefusedContent, lambda _: pack({"a" * 1_001: b""}), "longer than 1,000"),
    (RefusedContent, lambda _: make_bomb(), "zip bomb"),
]


@pytest.mark.parametrize("name", ["a.docx", "a.epub", "a.odt"])
@pytest.mark.parametrize(
    ("error", "make", "said"), HOSTILE, ids=[said for *_, said in HOSTILE]
)
def test_hostile_and_damaged_files_are_told(tmp_path, name, error, make, said):
    source, target = tmp_path / name, tmp_path / "target"
    source.write_bytes(make(GOOD))
    with pytest.raises(error, match=said):
        read(name, source.read_bytes())
    with pytest.raises(error, match=said):
        find_format(name).translate(source, keep, target, DocumentContext("fr"))
    assert not target.exists()


def rename(content: bytes) -> bytes:
    """Give a part a name that differs from the directory's and is not UTF-8."""
    return content.replace(b"word/doc", b"word/\xffoc", 1)


@pytest.mark.parametrize("damage", [break_member, rename])
def test_a_part_that_cannot_be_unpacked_is_named(damage):
    with pytest.raises(DamagedDocument, match=r"word/document.xml cannot be unpacked"):
        read("a.docx", damage(GOOD))


@pytest.mark.parametrize("ending", "pptx pptm xlsx xlsm epub odt ods odp".split())
def test_a_document_of_another_kind_is_told(ending: str):
    with pytest.raises(DamagedDocument, match="The extension seems wrong"):
        read(f"a.{ending}", GOOD)


VBA = "application/vnd.ms-office.vbaProject"


def add_macros(source: bytes, kind: str, program: str) -> bytes:
    """Add macros to a document, as Office writes them."""
    members = unpack(source)
    name, types = "[Content_Types].xml", members["[Content_Types].xml"].decode()
    main = f"application/vnd.openxmlformats-officedocument.{kind}.main"
    types = types.replace(main, f"application/vnd.ms-{program}.macroEnabled.main")
    override = f'<Override PartName="/vba.bin" ContentType="{VBA}"/></Types>'
    types = types.replace("</Types>", override)
    return pack({**members, name: types.encode(), "vba.bin": b"\xd0\xcf\x11"})


SLIDE, CELL = pack_pptx(f"<a:p>{shape('Hello')}</a:p>"), "<si><t>Hello</t></si>"


@pytest.mark.parametrize(
    ("name", "plain", "kind", "program"),
    [
        ("a.docm", GOOD, "wordprocessingml.document", "word.document"),
        ("a.pptm", SLIDE, "presentationml.presentation", "powerpoint.presentation"),
        ("a.xlsm", pack_xlsx(CELL), "spreadsheetml.sheet", "excel.sheet"),
    ],
)
def test_macros_stay_as_they_are(name, plain, kind, program):
    source = add_macros(plain, kind, program)
    media_type = f"application/vnd.ms-{program}.macroEnabled.12"
    assert find_format(name).media_type == media_type
    assert read(name, source) == ["Hello"]
    before, written = unpack(source), unpack(translate(name, source, shout))
    assert written["vba.bin"] == before["vba.bin"]
    assert written["[Content_Types].xml"] == before["[Content_Types].xml"]
    assert b"HELLO" in b"".join(written.values())


@pytest.mark.parametrize(
    "name", ["_xmlsignatures/origin.sigs", "META-INF/documentsignatures.xml"]
)
def test_a_signature_ends_with_a_warning(name: str):
    context = DocumentContext("de")
    assert read("a.docx", GOOD, context) == ["Hello"]
    assert not context.warnings
    assert read("a.docx", pack({**unpack(GOOD), name: b""}), context) == ["Hello"]
    assert [*context.warnings] == ["The signature is not valid for the translation."]


def test_ruby_is_lost_with_a_warning():
    context = DocumentContext("de")
    assert read("a.docx", pack_docx(RUBY), context)
    assert [*context.warnings] == [LOST_READINGS]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "a.docx"
    path.write_bytes(GOOD)
    return path


@pytest.mark.parametrize(
    ("translation", "error", "said"),
    [
        ("a <", LostMarkup, "extra"),
        ("a" * 20_000, DocumentTooLarge, "more than 8 times"),
    ],
    ids=["no fragment", "too long"],
)
def test_a_translation_that_does_not_fit_is_an_error(
    monkeypatch, translation, error, said
):
    monkeypatch.setattr(packages, "_MIN_WRITTEN_BYTES", 0)
    with pytest.raises(error, match=said):
        translate("a.docx", GOOD, lambda _: translation)


def test_members_keep_order_names_dates_methods_and_contents(good: Path):
    target = good.with_name("target")
    with zipfile.ZipFile(good, "a") as opened:
        opened.comment = b"a comment"
        described = zipfile.ZipInfo("media/é.png", (2001, 2, 3, 4, 5, 6))
        described.compress_type = zipfile.ZIP_DEFLATED
        described.external_attr = 0o640 << 16
        described.extra = b"\x99\x99\x02\x00ab"
        opened.writestr(described, bytes(range(256)) * 99)
        opened.writestr("stored", b"kept", zipfile.ZIP_STORED)
        opened.mkdir("folder")
    DOCX.translate(good, shout, target, DocumentContext("fr"))
    with zipfile.ZipFile(good) as before, zipfile.ZipFile(target) as after:
        assert after.testzip() is None
        assert after.comment == b"a comment"
        members = after.infolist()
        assert list(map(describe, members)) == list(map(describe, before.infolist()))


#: A program that reads and writes a document, and prints the growth of its peak memory in KiB.
MEASURE = """
import re, sys
from pathlib import Path
from documents.formats.format import DocumentContext
from documents.formats.openxml import FORMATS
FORMAT = FORMATS[-1]
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
source, target = map(Path, sys.argv[1:])
before = peak()
FORMAT.translate(source, str, None, DocumentContext("fr"))
FORMAT.translate(source, str.upper, target, DocumentContext("fr"))
print(peak() - before)
"""


@pytest.mark.slow
def test_a_large_spreadsheet_is_not_held_in_memory(tmp_path: Path):
    digits = random.Random(1)
    strings = (f"<si><t>a{digits.randbytes(99).hex()}</t></si>" for _ in range(40_000))
    cells = '<c t="n"><v>1</v></c>' * 80_000
    source = tmp_path / "a.xlsx"
    source.write_bytes(pack_xlsx(strings="".join(strings), sheet=cells))
    size_kib = source.stat().st_size >> 10
    assert size_kib > 4_000
    grown_kib = run_program(sys.executable, "-c", MEASURE, source, tmp_path / "target")
    assert int(grown_kib) < size_kib


def describe(member: zipfile.ZipInfo) -> tuple[object, ...]:
    return (
        member.filename,
        member.date_time,
        member.compress_type,
        member.external_attr,
        member.create_system,
        member.filename == "word/document.xml" or member.CRC,
    )
