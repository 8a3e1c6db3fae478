"""Texts as pieces: what is translated, and that nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.document import Document, ReadingJob, collect, divide, scan, take_apart
from text.options import HTML_TAGS, Splitting, Tags
from text.placeholders import fill
from text.segmentation import MAX_CHARACTERS


def read(
    text: str,
    source: str = "en",
    target: str | None = None,
    *,
    tags: Tags | None = None,
    splitting: Splitting = "lines",
    is_protected: bool = True,
) -> Document:
    texts = ((text, source),)
    job = ReadingJob(texts, tags, is_protected, len(text), splitting, target)
    (document,) = collect(job, scan(job))
    return document


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


@given(st.text(), st.booleans(), st.sampled_from(["sentences", "none"]))
def test_any_text_comes_back_byte_for_byte(text, is_protected, splitting):
    flowing = read(text, splitting=splitting)
    read_format = flowing.format.read  # line breaks mean nothing
    assert read_format(identity(flowing)) == read_format(text)
    document = read(text, is_protected=is_protected)
    assert identity(document) == text
    assert is_protected or not any(s.placeholders for s in document.segments)
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
    document = read(text)
    assert prepared(document) == expected
    assert all(text[s.start :].startswith(s.text) for s in document.segments)
    assert identity(document) == text


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
    document = read(source, tags=HTML_TAGS, splitting="sentences")
    assert prepared(document) == expected
    parts = [take_apart(segment, document.format) for segment in document.segments]
    assert document.render(map(identity, parts)).split() == source.split()


@pytest.mark.parametrize(
    ("splitting", "sentences"),
    [
        ("lines", ["One", "two.", "Three"]),
        ("sentences", ["One two.", "Three"]),
        ("none", ["One two.  Three"]),
    ],
)
def test_a_text_is_divided_where_it_should_be(splitting, sentences):
    document = read("One\ntwo.\n\nThree\n", splitting=splitting)
    assert prepared(document) == sentences
    segments = read("Hello. " * 400, splitting="none").segments
    assert [len(segment.text) <= MAX_CHARACTERS for segment in segments] == [True] * 3
