"""Texts in pieces: sentences are translated, and nothing else changes."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contract.languages import LANGUAGES
from tests.text.cases import list_rows
from text.document import Document, ReadingJob, collect, divide, scan, take_apart
from text.options import HTML_TAGS, Splitting, Tags
from text.placeholders import fill
from text.segmentation import MAX_CHARACTERS
from text.spacing import Spacing, separate


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


def copy(part: Any, write: Callable[[str], str]) -> str:
    """Translate a part into itself."""
    kept = part.placeholders
    return fill(part.text, kept, [p.shown for p in kept], write)


def identity(document: Document) -> str:
    """Render a document as if the model returned every text unchanged."""
    return document.render(copy(s, document.format.write) for s in document.segments)


def prepared(document: Document) -> list[str]:
    return [segment.prepared for segment in document.segments]


@given(
    st.text("aÀB日ก\u0301 ,()/%&+\"'’“„–—-12१¿.:;!?。।@#{", max_size=12).map(
        "{0}B a{0}".format
    ),
    st.sampled_from(list(LANGUAGES)),
)
@example("THE STATION IS CLOSED (12)!", "en")
@example("Well-known, it's 5 km", "en")
@example("नमस्ते दुनिया।", "hi")
@example("¿Abre a las 9?", "es")
@example("67 seconds ago", "en")
@example("(a) B", "en")
def test_a_short_sentence_is_read_as_if_it_were_a_line_of_several(text, source):
    alone, line = (read(t, source, "zh") for t in (text, f"{text}\n"))
    assert alone.segments == line.segments
    assert alone.render(["a"] * 9) == line.render(["a"] * 9).removesuffix("\n")


@given(st.text(), st.booleans(), st.sampled_from(["sentences", "none"]))
def test_any_text_comes_back_byte_for_byte(text, is_protected, splitting):
    flowing = read(text, splitting=splitting)
    read_format = flowing.format.read  # reads a line break as a space
    assert read_format(identity(flowing)) == read_format(text)
    document = read(text, is_protected=is_protected)
    assert identity(document) == text
    assert is_protected or not any(s.placeholders for s in document.segments)
    parts = [take_apart(segment, document.format) for segment in document.segments]
    assert document.render(map(identity, parts)) == text
    parts = [divide(segment, 3, document.format) for segment in document.segments]
    assert document.render(map(identity, parts)) == text


@pytest.mark.parametrize(("text", "expected"), list_rows("placeholders in sentences"))
def test_placeholders_are_hidden_inside_a_sentence_and_left_out_at_its_edge(
    text, expected
):
    document = read(text)
    assert prepared(document) == expected
    assert all(text[s.start :].startswith(s.text) for s in document.segments)
    assert identity(document) == text


@pytest.mark.parametrize(("source", "expected"), list_rows("tags in sentences"))
def test_inline_tags_stay_within_their_sentence(source, expected):
    document = read(source, tags=HTML_TAGS, splitting="sentences")
    assert prepared(document) == expected
    parts = [take_apart(segment, document.format) for segment in document.segments]
    assert squeeze(document.render(map(identity, parts))) == squeeze(source)


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


@pytest.mark.parametrize(
    ("spacing", "before", "separator", "after", "expected"), list_rows("separators")
)
def test_a_separator_becomes_what_the_target_writes(
    spacing, before, separator, after, expected
):
    assert separate(before, separator, after, Spacing[spacing]) == expected


#: The sentences of a model that copies all others.
KNOWN = {"你好。": "Hello.", "我叫": "I am", "再见！": "Bye!"}
KNOWN |= {"我是<b>安娜。</b>": "I am Anna."}
KNOWN |= {english: chinese for chinese, english in KNOWN.items()}


@pytest.mark.parametrize(("text", "expected"), list_rows("sentences apart"))
def test_sentences_are_apart_as_the_target_writes(text, expected):
    """Spaces are outside tags, and no space follows a full-width mark."""
    tags = HTML_TAGS if "<" in text else None
    pair = ("zh", "en") if re.search("[一-龥]", text) else ("en", "zh")
    how: Splitting = "sentences" if tags else "lines"
    document = read(text, *pair, tags=tags, splitting=how)
    found = document.render(KNOWN.get(s.text, s.text) for s in document.segments)
    assert found == expected


def test_only_translations_lose_the_readings_of_words():
    word = "<ruby>漢<rp>(<rt>かん</rt></ruby>"
    kept = f"<p translate=no>{word}</p>" + word.replace("y>", "y translate=no>", 1)
    document = read(f"{kept}{word}です", tags=HTML_TAGS)
    assert identity(document) == f"{kept}漢です"


def test_spanish_marks_around_tags_belong_to_their_sentence():
    document = read("¿<a><b>Ya</b></a>?", "es", tags=HTML_TAGS)
    assert prepared(document) == ["¿Ya?"]
    assert document.render(["Où ?"]) == "<a><b>Où</b></a> ?"
    document = read(f"<b>{'a {b} ' * 101}</b>?", "en", tags=HTML_TAGS)
    assert identity(document).endswith(" ?</b>")


def test_a_sentence_in_pieces_gets_spaces_around_words_and_outside_of_tags():
    text = "我叫<b>安娜</b>和{name}，住在<i>这里</i>。"
    document = read(text, "zh", "en", tags=HTML_TAGS)
    (segment,) = document.segments
    parts = take_apart(segment, document.format)
    assert identity(parts) == "我叫 <b>安娜</b> 和 {name}，住在 <i>这里</i>."
    document = read("Version {a}.{b}!", "en", "zh")
    assert (
        identity(take_apart(document.segments[0], document.format))[-8:] == "{a}.{b}！"
    )


PIECES = ["你好。", "a b. ", "\n", " ", "\u3000", "😀", "{x}", "<b>", "</b>"]
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=5)).map("".join)


@given(TEXT, st.booleans(), st.sampled_from(["zh en", "en zh", "zh ja"]))
def test_only_spaces_and_lone_signs_ever_change(text, is_html, pair):
    tags, (source, target) = HTML_TAGS if is_html else None, pair.split()
    document = read(text, source, target, tags=tags)
    parts = [take_apart(segment, document.format) for segment in document.segments]
    plain = read(text, source, tags=tags)
    expected = squeeze(identity(plain))
    assert squeeze(identity(document)) == expected
    assert squeeze(document.render(map(identity, parts))) == expected


def squeeze(text: str) -> str:
    return "".join(text.split()).translate(str.maketrans("。！？，、；：", ".!?,,;:"))
