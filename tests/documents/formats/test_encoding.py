"""Encodings of text files: labels, byte order marks, and bytes that are no text."""

import codecs
import re
from operator import itemgetter

import pytest

from documents.errors import DamagedDocument, DocumentTooLarge
from documents.formats import encoding
from documents.formats.encoding import Encoding, find_encoding, read_text
from documents.formats.format import DocumentContext
from tests.documents.formats.packing import find_group
from tests.documents.formats.translating import keep, read, translate

#: A name of Python's, and a label as the web has them.
DECLARED = re.compile(rb"coding=([\w-]+)|charset=(?P<label>[\w-]+)")


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"", Encoding()),
        (b"\xef\xbb\xbfa", Encoding("utf-8", codecs.BOM_UTF8)),
        (b"\xff\xfea\0", Encoding("utf-16-le", codecs.BOM_UTF16_LE)),
        (b"\xfe\xff\0a", Encoding("utf-16-be", codecs.BOM_UTF16_BE)),
        (b"coding=latin1", Encoding("iso8859-1")),
        (b"coding=CHARSET", Encoding()),
        (b"coding=nothing-1", Encoding()),
        (b"coding=rot13", Encoding()),
        (b"coding=undefined", Encoding()),
        (b"coding=punycode", Encoding()),
        (b"coding=utf-7", Encoding()),
        (b"coding=UTF-16", Encoding()),
        (b"coding=U32", Encoding()),
        (b"\xef\xbb\xbfcoding=latin1", Encoding("utf-8", codecs.BOM_UTF8)),
        ("coding=ascii äö".encode(), Encoding()),
        ("coding=latin1 äöüß".encode(), Encoding()),
        ("coding=latin1 ä".encode(), Encoding("iso8859-1")),
        (b"charset=latin1", Encoding("cp1252")),
        (b"charset=x-sjis", Encoding("cp932")),
        (b"charset=ks_c_5601-1987", Encoding("cp949")),
        (b"charset=unicode", Encoding()),
        (b"charset=x-user-defined", Encoding()),
        (b"charset=cp850", Encoding("cp850")),
    ],
    ids="""none mark little big said template unknown rot13 undefined punycode utf-7
        wrongly-said alias both not-ascii contrary too-short web-latin web-japanese
        web-korean web-unicode web-user web-unknown""".split(),
)
def test_the_first_bytes_tell_the_encoding(head, found, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(head)
    assert find_encoding(path, DECLARED, warn=DocumentContext("de").warn) == found


#: An encoding and a text for each language, and documents to put the texts into.
OLD, FRAMES = itemgetter("encodings", "frames")(find_group("old.txt"))
PLACES = [
    *(("a.txt", language) for language in OLD),
    *((name, language) for name in FRAMES for language in ("de", "ru", "ja")),
]


@pytest.mark.parametrize(("name", "language"), PLACES)
def test_an_old_encoding_is_found_by_its_language_and_written_again(name, language):
    encoding, text = OLD[language]
    content = FRAMES[name].format(text).encode(encoding)
    context = DocumentContext("en", language)
    assert read(name, content, context) == [text]
    assert len(context.warnings) == 1
    written = translate(name, content, lambda text: text[::-1], context)
    assert text[::-1] in written.decode(encoding)


SEVERAL = """big5 zh|big5 zh-Hant|koi8-r ru|koi8-u uk|cp866 ru|euc_jp ja|iso8859-2 pl|
iso8859-5 uk|iso8859-6 ar|iso8859-7 el|iso8859-9 tr""".replace("\n", "").split("|")


@pytest.mark.parametrize("pair", SEVERAL)
def test_a_language_has_several_encodings(pair):
    encoding, language = pair.split()
    chinese = "早安，請問火車站在哪裡？我想買一張車票。"
    text = chinese if language.startswith("zh") else OLD[language][1]
    found = read("a.txt", text.encode(encoding), DocumentContext("en", language))
    assert found == [text]


@pytest.mark.parametrize("language", "de ru ja ko ar".split())
def test_an_old_encoding_is_found_without_a_language(language):
    encoding, text = OLD[language]
    assert read("a.txt", f"{text}\n\n{text}".encode(encoding)) == [text, text]


@pytest.mark.parametrize("text", ["Straße", "Åsa;Örebro", "テスト"])
def test_a_few_single_letters_are_not_chinese(text):
    assert read("a.txt", text.encode("cp932" if text > "ÿ" else "cp1252")) == [text]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("language", "de ru zh".split())
def test_utf_16_without_a_mark_is_found(encoding, language):
    content = f"{OLD[language][1]}\n".encode(encoding)
    assert read("a.txt", content) == [OLD[language][1]]
    assert translate("a.txt", content, keep) == content


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"abc\0", 3),
        (b"\xff\xfea\0\0\xd8b\0", 4),
        (b"\xff\xfea\0\xe9", 4),
        (b"x" * ((1 << 20) - 1) + "é".encode() + b"\0", (1 << 20) + 1),
    ],
    ids=["zero", "half a pair", "half a character", "in a later chunk"],
)
def test_what_is_no_text_is_an_error_that_names_the_byte(content, place):
    with pytest.raises(DamagedDocument, match=f"byte {place:,} is not valid UTF"):
        read("a.txt", content)


def test_what_is_no_text_in_any_encoding_is_an_error():
    with pytest.raises(DamagedDocument, match="not text in any known encoding"):
        read("a.txt", bytes(range(1, 256)) * 4)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("Käse und Brötchen,\nCaf".encode() + b"\xe9 bitte", 24),
        (b"\xef\xbb\xbfCaf\xe9", 6),
        (b"x" * ((1 << 20) - 1) + "é\nCaf".encode() + b"\xe9", (1 << 20) + 5),
    ],
    ids=["among others", "after a mark", "in a later chunk"],
)
def test_a_stray_byte_is_told_read_and_kept(content, place):
    context = DocumentContext("de")
    assert "Café" in read("a.txt", content, context)[-1]
    said, *_ = context.warnings
    assert f"1 of the file's bytes, the first at byte {place:,}" in said
    assert translate("a.txt", content, keep) == content
    changed = translate("a.txt", content, lambda text: text.replace("Caf", "CAF"))
    assert changed.endswith("CAFé".encode()) or b" bitte" in changed


def test_a_value_of_json_may_have_a_stray_byte_but_no_half_of_a_pair():
    values = r'["Brötchen im Café", "half \udce9"]'.encode()
    content = values.replace(b"f\xc3\xa9", b"f\xe9")
    assert read("a.json", content) == ["Brötchen im Café"]
    assert translate("a.json", content, keep) == content


def test_a_number_and_a_stray_byte_are_in_one_page():
    page = '<meta charset="shift_jis"><p>ア</p><i class="'.encode("cp932") + b'\xff">'
    written = translate("a.html", page, lambda _: "Größe")
    assert written == page.replace("ア".encode("cp932"), b"Gr&#246;&#223;e")


def test_other_formats_become_utf_8_with_a_warning():
    content = "Grüße\n\nmehr\n".encode("cp1252")
    context = DocumentContext("ru", "de")
    known = {"Grüße": "Grüße", "mehr": "Мир"}
    written = translate("a.txt", content, known.__getitem__, context)
    assert written.decode() == "Grüße\n\nМир\n"
    assert [*context.warnings][-1] == (
        "The file was WINDOWS-1252, which lacks the translation's U+041C: it is now UTF-8."
    )


def test_a_catalog_that_becomes_utf_8_says_so():
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n\n'
    catalog = f'# Grüße\n{header}msgid "hello you"\nmsgstr ""\n'.encode("latin-1")
    written = translate("a.po", catalog, lambda _: "Мир", "ru").decode()
    assert written.startswith("# Grüße\n")
    assert "charset=UTF-8" in written
    assert 'msgstr "Мир"' in written


def test_a_file_that_is_too_large_for_its_format_is_an_error(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    with pytest.raises(DocumentTooLarge, match="5 bytes; expected at most 4"):
        read_text(path, Encoding(), max_bytes=4)


def test_a_line_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr(encoding, "MAX_LINE", 4)
    with pytest.raises(DocumentTooLarge, match="line of more than 4"):
        read("a.txt", b"hello")
