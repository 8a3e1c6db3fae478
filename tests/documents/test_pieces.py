"""Long texts are divided between sentences, and what is joined is the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.pieces import TextPiece, divide, join


@pytest.mark.parametrize(
    ("text", "markup", "expected"),
    [
        ("One.", "text", ["One."]),
        ("", "text", [""]),
        ("One two. Three.\n\nFour!", "text", ["One two.", "Three.", "Four!"]),
        (" - One. Two. ", "text", [" - One.", "Two. "]),
        (
            'One. <g id="1">Two. Three.</g> Four.',
            "xml",
            ["One.", '<g id="1">Two. Three.</g> Four.'],
        ),
        (
            'A <g id="1">b <g id="2">c. D</g></g>. E<x id="3"/>. F.',
            "xml",
            ['A <g id="1">b <g id="2">c. D</g></g>.', 'E<x id="3"/>.', "F."],
        ),
        ('<g id="1">One. Two.</g>', "xml", ['<g id="1">One. Two.</g>']),
    ],
)
def test_a_text_is_divided_between_its_sentences(text, markup, expected):
    pieces = divide(text, "en", markup, 1)
    assert [piece.text for piece in pieces] == expected


def test_pieces_are_as_long_as_they_may_be():
    text = " ".join(f"This is sentence {number}." for number in range(500))
    pieces = divide(text, None, "text", 1000)
    assert all(len(piece.text) <= 1000 for piece in pieces)
    assert len(pieces) < 2 * len(text) / 1000


@given(st.text("aB.!?。 \n-1é"), st.integers(1, 20))
def test_what_is_divided_and_joined_is_the_text(text, most):
    assert list(join(divide(text, "en", "text", most), "en", "de")) == [text]


@pytest.mark.parametrize(
    ("languages", "pieces", "expected"),
    [
        (("zh", "en"), [("Hi.", ""), ("Bye.", None)], ["Hi. Bye."]),
        (("en", "zh"), [("你好。", " "), ("再见。", None)], ["你好。再见。"]),
        (("en", "zh"), [("你好。", "\n"), ("再见。", None)], ["你好。\n再见。"]),
        (("en", "de"), [("A.", "  "), ("B.", None), ("C", None)], ["A.  B.", "C"]),
    ],
)
def test_pieces_are_joined_as_the_target_writes(languages, pieces, expected):
    assert list(join(map(TextPiece._make, pieces), *languages)) == expected
