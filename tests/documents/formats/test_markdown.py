"""Markdown: what is translated, and what stays."""

from __future__ import annotations

import pytest

from documents.errors import DocumentTooLarge
from tests.documents.formats.translating import keep, read, shout, translate

TABLE = "| Name | A \\| b |\n|:--|--:|\n| `x` y | **z** |\n\n"


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("# A title #\n\ntext", ["A title", "text"]),
        ("A title\n===\n", ["A title"]),
        ("a **b** _c_ ~~d~~", ['a <g id="1">b</g> <g id="2">c</g> <g id="3">d</g>']),
        ("***both***", ['<g id="1"><g id="2">both</g></g>']),
        ("a [b *c*](u 't') d", ['a <g id="1">b <g id="2">c</g></g> d']),
        ("see <http://a.b> x", ['see <x id="1"/> x']),
        ("run `ls *` now", ['run <x id="1"/> now']),
        ("with $x_1$ or $5 and $6", ['with <x id="1"/> or $5 and $6']),
        ("![A cat](c.png)", ["A cat"]),
        ("see ![A cat](c.png)", ['see <x id="1"/>', "A cat"]),
        ("a <b>b</b> <br> c", ['a <g id="1">b</g> <x id="2"/> c']),
        ("one\ntwo\n", ["one two"]),
        ("漢字\n漢字", ["漢字漢字"]),
        ("one  \ntwo\\\nthree", ['one<x id="1"/>two<x id="2"/>three']),
        ("> one\n> two", ["one two"]),
        ("- one\n  - two\n\n1. three", ["one", "two", "three"]),
        ("- [ ] one\n- [x] two", ["one", "two"]),
        ("1 \\* 2 &lt; c", ["1 * 2 &lt; c"]),
        (TABLE, ["Name", "A | b", '<x id="1"/> y', '<g id="1">z</g>']),
        ("- c\n\n  a | b\n  --|--\n  d | e", ["c", "a", "b", "d", "e"]),
        ("a[^1]\n\n[^1]: note\n", ['a<x id="1"/>', "note"]),
        ("---\ntitle: stays\n---\ntext", ["text"]),
        ("    code\n\n```\ncode\n```\n\n$$\na\n$$\n", []),
        ("<div>\nstays\n</div>\n\n[a]: http://b 'stays'\n\n***\n", []),
        ("2 * 3 = 6", []),
    ],
)
def test_texts_of_a_document(content, texts):
    assert read("a.md", content.encode()) == texts
    assert translate("a.md", content.encode(), keep) == content.encode()


@pytest.mark.parametrize(
    ("content", "new"),
    [
        ("#  a *b* ##\r\n\r\ntext\r\n", "#  A *B* ##\r\n\r\nTEXT\r\n"),
        ("> - a\n>   b\n> - c", "> - A B\n> - C"),
        ("a [b](u 't') ![c](d)", "A [B](u 't') ![C](d)"),
        ("a [b][c] [d][] [e]\n\n[c]: u\n[d]: v\n[e]: w", None),
        ("a\\*b &lt;", "A\\*B \\<"),
        (TABLE, "| NAME | A \\| B |\n|:--|--:|\n| `x` Y | **Z** |\n\n"),
        ("> a  \n> b", "> A  \n> B"),
        ("**a** b\n\n***c***\n\n_d_", "**A** B\n\n***C***\n\n_D_"),
        ("a `b\nc` d", "A `b\nc` D"),
    ],
)
def test_everything_else_stays(content, new):
    linked = "A [B][c] [D][d] [E][e]\n\n[c]: u\n[d]: v\n[e]: w"
    assert translate("a.md", content.encode(), shout).decode() == (new or linked)


@pytest.mark.parametrize(
    ("content", "translation", "new"),
    [
        ("text", "- text", "\\- text"),
        ("text", "1. text", "1\\. text"),
        ("text", "# text", "\\# text"),
        ("text", "> text", "\\> text"),
        ("text", "-5 degrees", "-5 degrees"),
        ("text", "1.5 degrees", "1.5 degrees"),
        ("a\n\n| b |\n|---|", "x | y", "x | y\n\n| x \\| y |\n|---|"),
        ("![a](b)", "[x]", "![\\[x\\]](b)"),
        ("*text*", '<g id="1"> x </g>', " *x* "),
        ("text", "two\nlines", "two lines"),
    ],
)
def test_a_translation_brings_no_markup_of_its_own(content, translation, new):
    written = translate("a.md", content.encode(), lambda _: translation)
    assert written.decode() == new


def test_short_rows_do_not_fill_the_memory():
    """Half a kilobyte becomes 65,000 cells: one such table may be, and not hundreds."""
    rows = "|" + "a|" * 256 + "\n|" + "-|" * 256 + "\n" + "|b\n" * 256 + "\n"
    assert read("a.md", rows.encode())
    with pytest.raises(DocumentTooLarge, match=r"more than 100,\d+ cells"):
        read("a.md", rows.encode() * 4)


def test_comments_end_at_their_first_end():
    content = b"a <!-- b ----> c <!----> d <!-- e"
    assert read("a.md", content) == ['a <x id="1"/> c <x id="2"/> d &lt;!-- e']
    assert translate("a.md", content, shout) == b"A <!-- b ----> C <!----> D <!-- E"


def test_cells_behind_an_empty_one_are_translated():
    content = b"| | b c |\n|-|-|\n| | d e |\n| f | g\\|h i |\n"
    assert translate("a.md", content, shout) == content.upper()
