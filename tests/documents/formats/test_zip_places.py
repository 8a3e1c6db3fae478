"""Zip files whose list of members is not what the file holds: they are refused early."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from documents.errors import DamagedDocument, DocumentTooLarge, RefusedContent
from documents.formats import packages
from documents.formats.format import Format, LanguagePair
from documents.formats.word import FORMAT as DOCX
from tests.documents.formats.paragraphs import run
from tests.documents.formats.test_packages import KINDS, zip_members
from tests.documents.formats.test_word import pack_docx


def list_members(*entries: tuple[int, int], packed: bytes = b"a" * 100) -> bytes:
    """A zip file with stored members, of which each has a place and a size in the list."""
    local = (
        struct.pack("<4s2B4HL2L2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0) + b"a"
    )
    directory = b""
    for number, (place, size) in enumerate(entries):
        name = b"%d" % number
        sizes = (0, size, size, len(name), 0, 0, 0, 0, 0, place)
        head = (b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 0)
        directory += struct.pack("<4s4B4HL2L5H2L", *head, *sizes) + name
    start, count = len(local + packed), len(entries)
    end = (b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    return local + packed + directory + struct.pack("<4s4H2LH", *end)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(list_members((0, 50), (0, 50)), "0 overlaps", id="the same bytes"),
        pytest.param(list_members((0, 50), (40, 20)), "0 overlaps", id="some bytes"),
        pytest.param(list_members((0, 5_000)), "0 overlaps", id="more than the file"),
        pytest.param(list_members((90, 50)), "0 overlaps", id="the list of members"),
        pytest.param(list_members((9_999, 0)), "0 overlaps", id="behind the file"),
        pytest.param(
            zip_members(("a" * 1_001, b"")), "longer than 1,000", id="a long name"
        ),
    ],
)
@pytest.mark.parametrize("form", KINDS, ids=lambda form: form.suffixes[0])
def test_what_would_be_copied_more_than_once_is_refused(
    tmp_path: Path, form: Format, content: bytes, said: str
):
    source, target = tmp_path / "hostile", tmp_path / "target"
    source.write_bytes(content)
    with pytest.raises(RefusedContent, match=said):
        form.write(source, iter(["a"]), target, LanguagePair(None, "fr"))
    assert not target.exists()


def test_a_stored_member_has_one_size(tmp_path: Path):
    source = tmp_path / "a.docx"
    content = list_members((0, 50))
    at = content.rfind(b"PK\1\2") + 24
    source.write_bytes(content[:at] + struct.pack("<L", 9) + content[at + 4 :])
    with pytest.raises(DamagedDocument, match="0 has two sizes"):
        list(DOCX.read(source, "de"))


def hide_directory(content: bytes, comment: bytes = b"") -> bytes:
    """The list of members is said to be small, and a record for large files has its size."""
    at = content.rfind(b"PK\5\6")
    size, start = struct.unpack("<2L", content[at + 12 : at + 20])
    count = struct.unpack("<H", content[at + 10 : at + 12])[0]
    record = (b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 46, start, len(comment))
    return content[:at] + struct.pack("<4sQ2H2L4Q", *record) + locator + end + comment


@pytest.mark.parametrize(
    "comment", [b"", b"a" * 65_535], ids=["no comment", "a comment"]
)
def test_the_list_of_members_is_bounded_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comment: bytes
):
    """The bound holds whatever size the file claims."""
    monkeypatch.setattr(zipfile, "ZipFile", None)
    source = tmp_path / "a.docx"
    source.write_bytes(hide_directory(list_members((0, 50)), comment))
    with pytest.raises(RefusedContent, match="too long"):
        list(DOCX.read(source, "de"))
    source.write_bytes(list_members(*[(0, 0)] * (packages.MAX_MEMBERS + 1)))
    with pytest.raises(DocumentTooLarge, match="20001 parts: expected 20000"):
        list(DOCX.read(source, "de"))


def test_a_document_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(packages, "_MIN_WRITTEN_BYTES", 0)
    source, target = pack_docx(tmp_path, run("Hello")), tmp_path / "target"
    with pytest.raises(DocumentTooLarge, match="more than 8 times"):
        DOCX.write(source, iter(["a" * 20_000]), target, LanguagePair(None, "fr"))
    assert not target.exists()
