"""Long texts are divided between sentences, and joined again without changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.pieces import TextPiece, divide, join
from tests.documents.formats.packing import find_group

CASES = find_group("pieces")


@pytest.mark.parametrize(("text", "markup", "expected"), CASES["divided"])
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


@pytest.mark.parametrize(("languages", "pieces", "expected"), CASES["joined"])
def test_pieces_are_joined_as_the_target_writes(languages, pieces, expected):
    assert list(join(map(TextPiece._make, pieces), *languages)) == expected
