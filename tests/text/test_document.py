"""Texts as pieces: what is translated, and that nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.document import (
    HTML,
    PLAIN,
    Document,
    Segment,
    TextFormat,
    divide,
    find_format,
    parse,
    scan_tagged,
    scan_text,
    take_apart,
)
from text.options import HTML_TAGS
from text.placeholders import fill
from text.segmentation import MAX_CHARACTERS


def read_text(
    text: str, language: str, *, is_protected: bool, format: TextFormat = PLAIN
) -> Document:
    pieces = scan_text(text, language, is_protected, format=format)
    return Document(tuple(pieces), format)


def read_html(
    source: str, language: str, *, is_protected: bool, format: TextFormat = HTML
) -> Document:
    runs = parse(source, HTML_TAGS)
    pieces = scan_tagged(runs, language, is_protected, tags=HTML_TAGS, format=format)
    return Document(tuple(pieces), format)


def identity(document: Document) -> str:
    """The result with a model that answers every text with itself."""
    return document.render(
        fill(
            s.text,
            s.placeholders,
            [p.shown for p in s.placeholders],
            document.format.write,
        )
        for s in document.segments
    )


def prepared(document: Document) -> list[str]:
    return [segment.prepared for segment in document.segments]


@given(st.text(), st.booleans())
def test_any_text_comes_back_byte_for_byte(text, is_protected):
    document = read_text(text, "en", is_protected=is_protected)
    assert identity(document) == text
    parts = [take_apart(segment, document.format) for segment in document.segments]
    assert document.render(map(identity, parts)) == text
    parts = [divide(segment, 3, document.format) for segment in document.segments]
    assert document.render(map(identity, parts)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello 😀", ["Hello"]),
        ("😀 Hello. https://a.b", ["Hello."]),
        ("Meet {name} at 5 km!", ["Meet {0} at {1}!"]),
        ("{name}, welcome", ["{0}, welcome"]),
        ("See https://a.b/c for more. Bye.", ["See {0} for more.", "Bye."]),
        ("`a. B` is code. Yes.", ["{0} is code.", "Yes."]),
        ("https://a.b", []),
        ("{name}", []),
        ("5 km", []),
    ],
)
def test_placeholders_are_hidden_inside_a_sentence_and_left_out_at_its_edge(
    text, expected
):
    document = read_text(text, "en", is_protected=True)
    assert prepared(document) == expected
    assert identity(document) == text


def test_without_protection_everything_is_text():
    assert prepared(read_text("Hi {name} 😀", "en", is_protected=False)) == [
        "Hi {name} 😀"
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>Hello <b>world</b>, hi.</p>", ["Hello {0}world{1}, hi."]),
        ("<b>Hello world</b>", ["Hello world"]),
        ('<a href="x"><i>Go</i></a>!', ["Go"]),
        ("One. <i>Two.</i> Three.", ["One.", "Two.", "Three."]),
        ("hard\nwrapped <b>\ntext</b>", ["hard wrapped {0} text{1}"]),
        ("Use <code>f</code> &amp; go", ["Use {0} & go"]),
        ("Hi <b>{name}</b> there", ["Hi {0}{1}{2} there"]),
        ("<b></b><p> </p>", []),
    ],
)
def test_inline_tags_stay_within_their_sentence(source, expected):
    document = read_html(source, "en", is_protected=True)
    assert prepared(document) == expected
    parts = [take_apart(segment, document.format) for segment in document.segments]
    assert document.render(map(identity, parts)).split() == source.split()


def test_a_sentence_says_where_it_is():
    text = "One. Two is longer."
    found = read_text(text, "en", is_protected=True).segments
    assert [text[s.start : s.start + len(s.text)] for s in found] == prepared(
        read_text(text, "en", is_protected=True)
    )


@pytest.mark.parametrize(
    ("splitting", "sentences"),
    [
        ("lines", ["One", "two.", "Three"]),
        ("sentences", ["One two.", "Three"]),
        ("none", ["One two.  Three"]),
    ],
)
def test_a_text_is_divided_where_it_should_be(splitting, sentences):
    pieces = list(scan_text("One\ntwo.\n\nThree\n", "en", True, splitting=splitting))
    assert [p.prepared for p in pieces if isinstance(p, Segment)] == sentences


@given(st.text(), st.sampled_from(["lines", "sentences", "none"]))
def test_between_sentences_every_character_stays(text, splitting):
    pieces = tuple(scan_text(text, "en", True, splitting=splitting))
    document = Document(pieces, find_format(None, splitting))
    assert document.format.read(identity(document)) == document.format.read(text)


def test_a_text_that_is_not_to_be_divided_is_where_it_is_too_long():
    pieces = list(scan_text("Hello. " * 400, "en", True, splitting="none"))
    segments = [piece for piece in pieces if isinstance(piece, Segment)]
    assert all(len(segment.text) <= MAX_CHARACTERS for segment in segments)
    assert len(segments) == 3
