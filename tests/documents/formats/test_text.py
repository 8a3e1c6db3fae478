"""Plain text: lines, and lines that belong together."""

from __future__ import annotations

import pytest

from tests.documents.formats.translating import read, shout, translate

WRAPPED = """\
  This paragraph was broken by an editor at sixty characters,
  as people did in letters and in books without pictures, and
  it ends here.
"""


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("One.\nTwo.\n\n\nThree", ["One.", "Two.", "Three"]),
        ("One.\r\n  Two. \r\n", ["One.", "Two."]),
        ("42\n---\n\n", []),
        ("- one\n- two\n", ["- one", "- two"]),
        ("Roses are red\nViolets are blue\n", ["Roses are red", "Violets are blue"]),
        (WRAPPED, [" ".join(WRAPPED.split())]),
        ("x" * 60 + ".\n" + "y" * 59, ["x" * 60 + ".", "y" * 59]),
        ("x" * 60 + "\n- " + "y" * 58, ["x" * 60, "- " + "y" * 58]),
        ("x" * 101 + "\n" + "y" * 101, ["x" * 101, "y" * 101]),
        ("漢" * 50 + "\n" + "字" * 20 + "。", ["漢" * 50 + "字" * 20 + "。"]),
    ],
    ids="lines crlf nothing list verse wrapped ended items wide dense".split(),
)
def test_a_text_is_a_line_or_several_that_were_broken(content, texts):
    assert read("a.txt", content.encode()) == texts


def test_a_translation_is_broken_as_its_text_was():
    assert translate("a.txt", WRAPPED.encode(), shout).decode() == WRAPPED.upper()


def test_a_longer_translation_keeps_width_and_indentation():
    new = translate("a.txt", WRAPPED.encode(), lambda text: f"{text} {text}").decode()
    lines = new.splitlines()
    assert all(line.startswith("  ") and len(line) <= 61 for line in lines)
    assert new.split() == WRAPPED.split() * 2


def test_a_text_without_spaces_is_broken_as_well():
    content = "漢" * 50 + "\n" + "字" * 20
    new = translate("a.txt", content.encode(), lambda text: text[::-1]).decode()
    assert new == "字" * 20 + "漢" * 30 + "\n" + "漢" * 20


def test_lines_keep_their_ends():
    content = b"one\r\ntwo\rthree\nfour"
    assert translate("a.txt", content, shout) == content.upper()
