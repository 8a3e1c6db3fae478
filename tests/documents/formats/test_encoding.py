"""Bytes of text files: encodings, marks, and what is no text."""

from __future__ import annotations

import codecs
import re

import pytest

from documents.errors import DamagedDocument, DocumentTooLarge
from documents.formats import encoding
from documents.formats.encoding import Encoding, find_encoding, read_text, write_text
from tests.documents.formats.translating import keep, read, shout, translate

PAGE = '<meta charset="{}"><p>Grüße und mehr</p>'


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"", Encoding()),
        (b"\xef\xbb\xbfa", Encoding("utf-8", codecs.BOM_UTF8)),
        (b"\xff\xfea\0", Encoding("utf-16-le", codecs.BOM_UTF16_LE)),
        (b"\xfe\xff\0a", Encoding("utf-16-be", codecs.BOM_UTF16_BE)),
        (b"coding=latin1", Encoding("iso8859-1")),
        (b"coding=CHARSET", Encoding()),
        (b"coding=UTF-16", Encoding()),
        (b"coding=U32", Encoding()),
        (b"\xef\xbb\xbfcoding=latin1", Encoding("utf-8", codecs.BOM_UTF8)),
    ],
    ids="none mark little big said template wrongly-said alias both".split(),
)
def test_the_first_bytes_tell_the_encoding(head, found, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(head)
    assert find_encoding(path, re.compile(rb"coding=([\w-]+)")) == found


@pytest.mark.parametrize(
    "name", "nothing-1 rot13 undefined punycode idna utf-7 Unicode_Escape".split()
)
def test_an_unknown_encoding_is_an_error(name):
    with pytest.raises(DamagedDocument, match=f"declares the encoding '{name}'"):
        read("a.html", PAGE.format(name).encode())


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"abc\xff", 3),
        (b"abc\0", 3),
        (b"\xef\xbb\xbfab\xc3", 5),
        (b"\xff\xfea\0\0\xd8b\0", 4),
        (b"x" * ((1 << 20) - 1) + "é".encode() + b"\0", (1 << 20) + 1),
    ],
    ids=["byte", "zero", "torn", "half a character", "in a later chunk"],
)
def test_what_is_no_text_is_an_error_that_names_the_byte(content, place):
    with pytest.raises(DamagedDocument, match=f"byte {place:,} is not UTF"):
        read("a.txt", content)


def test_a_character_over_two_chunks_is_read():
    content = b"x" * ((1 << 20) - 1) + "é\n".encode()
    assert translate("a.txt", content, keep) == content


def test_a_declared_encoding_is_written_again():
    page = PAGE.format("windows-1252").encode("cp1252")
    new = PAGE.format("windows-1252").replace("Grüße und mehr", "GRÜSSE UND MEHR")
    assert translate("a.html", page, shout) == new.encode("cp1252")


def test_html_writes_other_characters_as_numbers():
    page = PAGE.format("windows-1252").encode("cp1252")
    assert b"<p>&#1052;&#1080;&#1088;</p>" in translate("a.html", page, lambda _: "Мир")


def test_other_formats_refuse_characters_that_the_encoding_lacks(tmp_path):
    with pytest.raises(
        DamagedDocument, match=r"U\+041C.*iso8859-1.*save the file as UTF-8"
    ):
        write_text(["Мир"], tmp_path / "a", Encoding("iso8859-1"))


def test_a_file_that_is_too_large_for_its_format_is_an_error(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    with pytest.raises(DocumentTooLarge, match="5 bytes; expected at most 4"):
        read_text(path, max_bytes=4)


def test_a_line_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr(encoding, "MAX_LINE", 4)
    with pytest.raises(DocumentTooLarge, match="line of more than 4"):
        read("a.txt", b"hello")
