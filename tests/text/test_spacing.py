"""The separators of sentences in a translation, and that nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.test_document import identity, read
from text.document import take_apart
from text.options import HTML_TAGS
from text.spacing import Spacing, separate


@pytest.mark.parametrize(
    ("spacing", "before", "separator", "after", "expected"),
    [
        (Spacing.ADD, "Bonjour.", "", "Où", " "),
        (Spacing.ADD, "Bonjour !", "\u3000", "Où", " "),
        (Spacing.ADD, "Bonjour.", " ", "Où", " "),
        (Spacing.ADD, "Bonjour", "", ", toi", ""),
        (Spacing.ADD, "(", "", "Où", ""),
        (Spacing.ADD, "Bonjour", "", "» dit-il", ""),
        (Spacing.ADD, "Bonjour ", "", "Où", ""),
        (Spacing.ADD, "", "", "Où", ""),
        (Spacing.DROP, "你好。", " ", "再见。", ""),
        (Spacing.DROP, "你好！", "\u00a0", "OK", ""),
        (Spacing.DROP, "你好……", " ", "再见", ""),
        (Spacing.DROP, "你好", " ", "再见", " "),
        (Spacing.DROP, "Windows.", " ", "再见", " "),
        (Spacing.DROP, "你好。", " ", "", " "),
    ],
)
def test_a_separator_becomes_what_the_target_writes(
    spacing, before, separator, after, expected
):
    assert separate(before, separator, after, spacing) == expected


def translate(text: str, pair: str, *, is_html: bool = False) -> str:
    """With a model that knows a few sentences and copies the others."""
    known = {"你好。": "Hello.", "我叫": "I am", "再见！": "Bye!", "（好的）": "(Fine)"}
    known |= {english: chinese for chinese, english in known.items()}
    if is_html:
        document = read(text, *pair.split(), tags=HTML_TAGS, splitting="sentences")
    else:
        document = read(text, *pair.split())
    return document.render(known.get(s.text, s.text) for s in document.segments)


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
    ],
)
def test_sentences_without_spaces_get_one(text, expected):
    assert translate(text, "zh en") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>你好。<b>再见！</b></p>", "<p>Hello. <b>Bye!</b></p>"),
        ("<b>你好。</b>再见！", "<b>Hello.</b> Bye!"),
        ("<b>你好。</b><i>再见！</i>", "<b>Hello.</b> <i>Bye!</i>"),
        ("<b>我叫</b>。<i>再见！</i>", "<b>I am</b>. <i>Bye!</i>"),
        ("<p>你好。</p><p>再见！</p>", "<p>Hello.</p><p>Bye!</p>"),
        ("你好。<br>再见！", "Hello.<br>Bye!"),
        ("你好。<img src=a>再见！", "Hello. <img src=a>Bye!"),
    ],
)
def test_in_html_the_space_stands_outside_of_tags(text, expected):
    assert translate(text, "zh en", is_html=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello. Bye!", "你好。再见！"),
        ("Hello.\n  Bye!\n", "你好。\n  再见！\n"),
        ("1. Hello. Bye!\n2. Hello.", "1. 你好。再见！\n2. 你好。"),
        ("Hello. 😀 Bye!", "你好。😀 再见！"),
        ("Hello. {x}! Bye!", "你好。 {x}！ 再见！"),
        ("Windows. Bye!", "Windows. 再见！"),
        ("Hello. https://a.b Bye!", "你好。https://a.b 再见！"),
    ],
)
def test_after_a_wide_mark_a_single_space_is_dropped(text, expected):
    assert translate(text, "en zh") == expected


def test_a_sentence_in_pieces_gets_spaces_around_words_and_outside_of_tags():
    text = "我叫<b>安娜</b>和{name}，住在<i>这里</i>。"
    document = read(text, "zh", "en", tags=HTML_TAGS)
    (segment,) = document.segments
    parts = take_apart(segment, document.format)
    assert identity(parts) == "我叫 <b>安娜</b> 和 {name}，住在 <i>这里</i>."


TEXT = st.lists(
    st.sampled_from(
        ["你好。", "a b. ", "\n", " ", "\u3000", "😀", "{x}", "<b>", "</b>"]
    )
    | st.text(max_size=5)
).map("".join)


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
