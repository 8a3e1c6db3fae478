"""Conversion of sentences with markup to fragments and back."""

import pytest

from documents.errors import LostMarkup
from documents.formats.inline import (
    InlinePiece,
    PieceRole,
    read_fragment,
    write_fragment,
)

OPEN = InlinePiece("**", PieceRole.OPENING, "b")
CLOSE = InlinePiece("**", PieceRole.CLOSING, "b")
LINK = InlinePiece("[", PieceRole.OPENING, "a")
LINK_END = InlinePiece("](u)", PieceRole.CLOSING, "a")
IMAGE = InlinePiece("![](i)", PieceRole.ALONE)
TWO = InlinePiece("two")
SENTENCE = [InlinePiece("1 < "), OPEN, TWO, CLOSE, IMAGE, InlinePiece(" &c")]
FRAGMENT = '1 &lt; <g id="1">two</g><x id="2"/> &amp;c'


@pytest.mark.parametrize(
    ("pieces", "fragment"),
    [
        (SENTENCE, FRAGMENT),
        ([OPEN, LINK, LINK_END, CLOSE], '<g id="1"><g id="2"></g></g>'),
        ([OPEN, LINK, CLOSE, LINK_END], '<g id="1"><x id="2"/></g><x id="3"/>'),
        ([CLOSE, OPEN], '<x id="1"/><x id="2"/>'),
        ([OPEN, OPEN, CLOSE], '<x id="1"/><g id="2"></g>'),
    ],
    ids=["sentence", "nested", "crossed", "reversed", "not closed"],
)
def test_a_fragment_has_an_element_for_each_piece_of_markup(pieces, fragment):
    assert write_fragment(pieces) == fragment
    raw = "".join(piece.raw for piece in pieces)
    assert read_fragment(fragment, pieces, str) == raw


@pytest.mark.parametrize(
    ("moved", "raw"),
    [
        ('<x id="2" /><g id="1">deux</g> &gt; 1', "![](i)**DEUX** > 1"),
        (
            '{n, plural, few {<g id="1">a</g>} other {<g id="1">b</g>}}<x id="2"/>',
            "{N, PLURAL, FEW {**A**} OTHER {**B**}}![](i)",
        ),
    ],
    ids=["sentence", "message"],
)
def test_elements_may_move_and_are_in_several_arms_of_a_message(moved, raw):
    assert read_fragment(moved, SENTENCE, str.upper) == raw


@pytest.mark.parametrize(
    ("fragment", "fault"),
    [
        ("1 two", "lacks an element: 1, 2"),
        ('<g id="1">two</g>', "lacks an element: 2"),
        (FRAGMENT + '<x id="2"/>', "extra element, '<x id=\"2\"/>'"),
        (FRAGMENT + '<x id="3"/>', "extra element"),
        ('<x id="1"/><x id="2"/>', "extra element"),
        ('<g id="1"><x id="2"/>', "lacks an element: the last end tag"),
        (FRAGMENT + "</g>", "an end tag without a start tag"),
        (FRAGMENT + "<b>", "extra element, '<'"),
        ("</t><t>", "extra element, '<'"),
        ('<x id="1">text</x>', "extra element"),
    ],
    ids="none one doubled invented changed open closed foreign frame filled".split(),
)
def test_a_translation_with_other_elements_is_an_error(fragment, fault):
    with pytest.raises(LostMarkup, match=fault):
        read_fragment(fragment, SENTENCE, str)
