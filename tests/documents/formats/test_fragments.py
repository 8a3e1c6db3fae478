"""Fragments: sentences with formatting, and translations whose markup does not fit them."""

import pytest

from documents.errors import LostMarkup
from documents.formats.fragments import Atom, Part, Span, read_fragment

LINK, BOLD, IMAGE = object(), object(), Atom(())
PARTS: list[Part] = ["a & b ", Span(LINK, ["the ", Span(BOLD, ["page"])]), IMAGE]


def show(parts: list[Part]) -> list[object]:
    """Convert spans to lists that begin with their shell."""
    return [
        [part.shell, *show(list(part.parts))] if isinstance(part, Span) else part
        for part in parts
    ]


@pytest.mark.parametrize(
    ("translation", "parts"),
    [
        (
            '<x id="3"/><g id="2">p\x01</g><g id="1">l</g> &lt;',
            [IMAGE, [BOLD, "p"], [LINK, "l"], " <"],
        ),
        ('<g id="1"></g><g id="2"></g><x id="3"/>', [[LINK], [BOLD], IMAGE]),
        ('<g id="2"><g id="1"><x id="3"/></g></g>', [[BOLD, [LINK, IMAGE]]]),
    ],
    ids=["another order", "without text", "a link in bold"],
)
def test_elements_may_move(translation: str, parts: list[object]):
    assert show(read_fragment(translation, PARTS)) == parts


def test_an_image_is_copied_into_the_arms_of_a_message():
    one, two = read_fragment('<x id="1"/>{<x id="1"/>', [IMAGE, "a"])[::2]
    assert one is IMAGE
    assert two is not IMAGE


def test_a_message_does_not_name_all_elements():
    parts: list[Part] = ["a", *(Atom(()) for _ in range(5_000))]
    with pytest.raises(LostMarkup, match="…") as caught:
        read_fragment("a", parts)
    assert len(str(caught.value)) < 1_000
