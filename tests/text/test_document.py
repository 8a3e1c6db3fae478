"""Texts in pieces: sentences are translated, and nothing else changes."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contract.languages import LANGUAGES
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


@pytest.mark.parametrize(
    ("spacing", "before", "separator", "after", "expected"),
    [
        (Spacing.ADD, "Bonjour !", "\u3000", "Où", " "),
        (Spacing.ADD, "Bonjour.", " ", "Où", " "),
        (Spacing.ADD, "Bonjour", "", ", toi", ""),
        (Spacing.ADD, "(", "", "Où", ""),
        (Spacing.ADD, "Bonjour", "", "» dit-il", ""),
        (Spacing.ADD, "Bonjour ", "", "Où", ""),
        (Spacing.ADD, "", "", "Où", ""),
        (Spacing.DROP, "你好！", "\u00a0", "OK", ""),
        (Spacing.DROP, "你好……", " ", "再见", ""),
        (Spacing.DROP, "你好", " ", "再见", " "),
        (Spacing.DROP, "你好。", " ", "", " "),
    ],
)
def test_a_separator_becomes_what_the_target_writes(
    spacing, before, separator, after, expected
):
    assert separate(before, separator, after, spacing) == expected


#: The sentences of a model that copies all others.
KNOWN = {"你好。": "Hello.", "我叫": "I am", "再见！": "Bye!"}
KNOWN |= {"我是<b>安娜。</b>": "I am Anna."}
KNOWN |= {english: chinese for chinese, english in KNOWN.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好。再见！", "Hello. Bye!"),
        ("你好。\n\u3000再见！\n", "Hello.\n\u3000Bye!\n"),
        ("你好。😀再见！", "Hello. 😀 Bye!"),
        ("你好。https://a.b", "Hello. https://a.b"),
        ("你好。https://a.b！你好。", "Hello. https://a.b! Hello."),
        ("・你好。再见！\n・你好。", "・ Hello. Bye!\n・ Hello."),
        ("你好。{name}", "Hello. {name}"),
        ("<p>你好。<b>再见！</b></p>", "<p>Hello. <b>Bye!</b></p>"),
        ("<b>你好。</b>再见！", "<b>Hello.</b> Bye!"),
        ("<b>你好。</b><i>再见！</i>", "<b>Hello.</b> <i>Bye!</i>"),
        ("<b>我叫</b>。<i>再见！</i>", "<b>I am</b>. <i>Bye!</i>"),
        ("<p>你好。</p><p>再见！</p>", "<p>Hello.</p><p>Bye!</p>"),
        ("你好。<br>再见！", "Hello.<br>Bye!"),
        ("你好。<img src=a>再见！", "Hello. <img src=a>Bye!"),
        ("Hello. Bye!", "你好。再见！"),
        ("Hello.\n  Bye!\n", "你好。\n  再见！\n"),
        ("1. Hello. Bye!\n2. Hello.", "1. 你好。再见！\n2. 你好。"),
        ("Hello. 😀 Bye!", "你好。😀 再见！"),
        ("Hello. {x}! Bye!", "你好。 {x}！ 再见！"),
        ("Windows. Bye!", "Windows. 再见！"),
        ("I am <b>Anna.</b> Bye!", "我是<b>安娜。</b>再见！"),
        ("{a}.{b}! <b>3</b>.<i>5</i>", "{a}.{b}！ <b>3</b>.<i>5</i>"),
        ("Hello. https://a.b Bye!", "你好。https://a.b 再见！"),
    ],
)
def test_sentences_are_apart_as_the_target_writes(text, expected):
    """Spaces are outside tags, and no space follows a full-width mark."""
    tags = HTML_TAGS if "<" in text else None
    pair = ("zh", "en") if re.search("[一-龥]", text) else ("en", "zh")
    how: Splitting = "sentences" if tags else "lines"
    document = read(text, *pair, tags=tags, splitting=how)
    found = document.render(KNOWN.get(s.text, s.text) for s in document.segments)
    assert found == expected


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
