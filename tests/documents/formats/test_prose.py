"""The values that are language."""

from __future__ import annotations

import pytest

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
