"""Fragments: a sentence with its formatting, and the translations that do not fit it."""

from __future__ import annotations

import pytest

from documents.errors import LostMarkup
from documents.formats.fragments import Atom, Part, Span, read_fragment, write_fragment

LINK, BOLD, IMAGE = object(), object(), Atom(())
PARTS: list[Part] = [
    "a & b ",
    Span(LINK, ["the ", Span(BOLD, ["page"])], is_container=True),
    IMAGE,
]


def show(parts: list[Part]) -> list[object]:
    """Parts as lists, with the shell first."""
    return [
        [part.shell, *show(list(part.parts))] if isinstance(part, Span) else part
        for part in parts
    ]


def test_elements_are_numbered_in_their_order():
    assert write_fragment(PARTS) == (
        'a &amp; b <g id="1">the <g id="2">page</g></g><x id="3"/>'
    )


def test_a_fragment_is_read_as_it_is_written():
    assert show(read_fragment(write_fragment(PARTS), PARTS)) == show(PARTS)


@pytest.mark.parametrize(
    ("translation", "parts"),
    [
        (
            '<x id="3"/><g id="2">p</g><g id="1">l</g> &lt;',
            [IMAGE, [BOLD, "p"], [LINK, "l"], " <"],
        ),
        ('<g id="1"/><g id="2"></g><x id="3"></x>', [[LINK], [BOLD], IMAGE]),
        ('<g id="2"><g id="1"><x id="3"/></g></g>', [[BOLD, [LINK, IMAGE]]]),
    ],
    ids=["another order", "without text", "a link in bold"],
)
def test_elements_may_move(translation: str, parts: list[object]):
    assert show(read_fragment(translation, PARTS)) == parts


WHOLE = '<g id="1">the <g id="2">page</g></g><x id="3"/>'


@pytest.mark.parametrize(
    ("translation", "said"),
    [
        pytest.param("a < b", "not a well-formed fragment", id="a bare sign"),
        pytest.param("a & b", "not a well-formed fragment", id="a bare ampersand"),
        pytest.param("&nbsp;", "not a well-formed fragment", id="an unknown entity"),
        pytest.param('<g id="1">', "not a well-formed fragment", id="not closed"),
        pytest.param("</t><t>", "not a well-formed fragment", id="out of the frame"),
        pytest.param("\x01", "not a well-formed fragment", id="a control character"),
        pytest.param("text", r"elements \[\], and its text has \[1, 2, 3\]", id="none"),
        pytest.param(WHOLE + '<x id="3"/>', r"\[1, 2, 3, 3\]", id="one twice"),
        pytest.param(WHOLE + '<x id="4"/>', "element 4", id="a new one"),
        pytest.param(WHOLE + "<b/>", "element 0", id="another element"),
        pytest.param(WHOLE + "<!-- c -->", "element 0", id="a comment"),
        pytest.param('<x id="1"/>', "element 1", id="a span as an atom"),
        pytest.param('<g id="3"/>', "element 3", id="an atom as a span"),
        pytest.param('<x id="3">text</x>', "element 3", id="text in an atom"),
    ],
)
def test_a_translation_that_does_not_fit_is_told(translation: str, said: str):
    with pytest.raises(LostMarkup, match=said):
        read_fragment(translation, PARTS)


def test_a_link_does_not_move_into_another():
    parts: list[Part] = [Span(LINK, ["a"], True), Span(object(), ["b"], True)]
    with pytest.raises(LostMarkup, match="moves a link"):
        read_fragment('<g id="1">a<g id="2">b</g></g>', parts)


def test_a_message_does_not_name_all_elements():
    parts: list[Part] = ["a", *(Atom(()) for _ in range(5_000))]
    with pytest.raises(LostMarkup, match="…") as caught:
        read_fragment("a", parts)
    assert len(str(caught.value)) < 1_000
