"""A file's name tells its format, and a value is language or it is not."""

from __future__ import annotations

import pytest

from documents.errors import UnknownFormat
from documents.formats import FORMATS, SUFFIXES, find_format
from documents.formats.format import is_prose

PROSE = """
Save|Good morning|Yes/No|e-mail|can't|Hello, {name}!|%d files|Done.|OK|well-known|
保存|Привет|Übergröße|<b>Bold</b> text|café|100 % cotton|See https://example.org/a
"""
CODES = """
42|3.14|2030-01-31|true|null||   |https://example.org|www.example.org|mailto:a@b.c|
a@example.org|user_id|firstName|PascalCase|MAX_SIZE|my-css-class|#ff0000|.button|#main|
/etc/hosts|index.html|image/png|en-US|zh-Hant|{name}|%s|%1$s|{{ count }} {{ total }}|
550e8400-e29b-41d4-a716-446655440000|dGhpcyBpcyBhIHZlcnkgbG9uZyBiYXNlIHRleHQ|a.b.c|
std::string|C:\\Users|$HOME|%d / %d|A1|v2|data:image/png;base64,AAAA
"""


@pytest.mark.parametrize("text", PROSE.replace("\n", "").split("|"))
def test_what_people_read_is_prose(text):
    assert is_prose(text)


@pytest.mark.parametrize("text", CODES.replace("\n", "").split("|"))
def test_what_programs_read_is_not(text):
    assert not is_prose(text)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_ending_has_one_format(suffix):
    found = [each for each in FORMATS if suffix in each.suffixes]
    assert found == [find_format(f"My file.{suffix[1:].upper()}")]


@pytest.mark.parametrize(
    ("name", "told"),
    [("a.exe", "in '.exe'"), ("notes", "without an ending"), (".po", "without")],
)
def test_an_unknown_ending_is_an_error_that_names_the_known_ones(name, told):
    with pytest.raises(UnknownFormat, match=rf"{told}.*\.txt.*\.csv"):
        find_format(name)
