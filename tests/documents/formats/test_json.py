"""JSON: which values are texts, how they are written, and what is no JSON."""

from __future__ import annotations

import pytest

from documents.errors import DamagedDocument, RefusedContent
from tests.documents.formats.translating import read, shout, translate


@pytest.mark.parametrize(
    ("content", "new"),
    [
        ('{"a key": "a value"}', '{"a key": "A VALUE"}'),
        ('["one two", ["three four"], {}]', '["ONE TWO", ["THREE FOUR"], {}]'),
        ('"just text"\n', '"JUST TEXT"\n'),
        ('{ "n" : -1.50e3 , "t":true,\r\n"x":null}', None),
        ('["user_id", "https://example.org", "42", ""]', None),
        ('["  a text\\n"]', '["  A TEXT\\n"]'),
        ('["un caf\\u00e9"]', '["UN CAF\\u00c9"]'),
        ('["un café"]', '["UN CAFÉ"]'),
        ('["a \\"b\\" \\\\ c\\/d"]', '["A \\"B\\" \\\\ C\\/D"]'),
        ('["a \\ud83d\\ude00"]', '["A \\ud83d\\ude00"]'),
        ('["half a \\ud83d"]', None),
    ],
    ids="object array root numbers codes space ascii utf slash pair half".split(),
)
def test_values_are_translated_and_everything_else_stays(content, new):
    assert translate("a.json", content.encode(), shout) == (new or content).encode()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "line 1, column 1: expected value"),
        ('{"a": 1,}', "line 1, column 9: expected key"),
        ('{"a"\n 1}', "line 2, column 2: expected :"),
        ('["a" "b"]', "line 1, column 6: expected a comma or ]"),
        ('{"a": 1', "line 1, column 8: expected a comma or }"),
        ("[1] 2", "line 1, column 5: expected the end of the file"),
        ("[01]", "line 1, column 2: expected value or ]"),
        ("['a']", "line 1, column 2: expected value or ]"),
        ('["a\nb"]', "line 1, column 2: expected value or ]"),
        ("[}", "line 1, column 2: expected value or ]"),
        ("{1: 2}", "line 1, column 2: expected key or }"),
    ],
)
def test_what_is_no_json_is_an_error_that_names_the_place(content, fault):
    with pytest.raises(DamagedDocument, match=fault.replace("[", r"\[")):
        read("a.json", content.encode())


def test_deep_nesting_is_refused():
    assert read("a.json", b"[" * 200 + b'"a b"' + b"]" * 200) == ["a b"]
    with pytest.raises(RefusedContent, match="deeper than 200 at line 1, column 201"):
        read("a.json", b"[" * 201)
