"""The separators of sentences in a translation, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.test_document import identity, read_html, read_text
from text.document import HTML, PLAIN
from text.document import take_apart as take_segment_apart
from text.spacing import Spacing, compare, separate


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("ja", "fr", Spacing.ADD),
        ("zh", "ko", Spacing.ADD),
        ("zh", "th", Spacing.ADD),
        ("es", "zh", Spacing.DROP),
        ("ko", "ja", Spacing.DROP),
        ("ja", "zh", Spacing.KEEP),
        ("en", "ko", Spacing.KEEP),
        ("", "en", Spacing.KEEP),
    ],
)
def test_two_kinds_of_writing_need_other_separators(source, target, expected):
    assert compare(source, target) is expected


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
        (Spacing.DROP, "「はい」", " ", "次", ""),
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


def translate(text: str, spacing: Spacing, *, is_html: bool = False) -> str:
    """With a model that knows a few sentences and copies the others."""
    known = {"你好。": "Hello.", "我叫": "I am", "再见！": "Bye!", "（好的）": "(Fine)"}
    if spacing is Spacing.DROP:
        known = {english: chinese for chinese, english in known.items()}
    format = replace(HTML if is_html else PLAIN, spacing=spacing)
    read = read_html if is_html else read_text
    language = "zh" if spacing is Spacing.ADD else "en"
    document = read(text, language, is_protected=True, format=format)
    return document.render(known.get(s.text, s.text) for s in document.segments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好。再见！", "Hello. Bye!"),
        ("你好。  再见！", "Hello.  Bye!"),
        ("你好。\n\u3000再见！\n", "Hello.\n\u3000Bye!\n"),
        ("- 你好。再见！\n- 你好。\n", "- Hello. Bye!\n- Hello.\n"),
        ("你好。😀再见！", "Hello. 😀 Bye!"),
        ("你好。https://a.b", "Hello. https://a.b"),
        ("😀你好。", "😀 Hello."),
        ("你好。https://a.b！你好。", "Hello. https://a.b! Hello."),
        ("・你好。再见！\n・你好。", "・ Hello. Bye!\n・ Hello."),
        ("你好。{name}", "Hello. {name}"),
    ],
)
def test_sentences_without_spaces_get_one(text, expected):
    assert translate(text, Spacing.ADD) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>你好。<b>再见！</b></p>", "<p>Hello. <b>Bye!</b></p>"),
        ("<b>你好。</b>再见！", "<b>Hello.</b> Bye!"),
        ("<b>你好。</b><i>再见！</i>", "<b>Hello.</b> <i>Bye!</i>"),
        ("<b>你好。</b> <i>再见！</i>", "<b>Hello.</b> <i>Bye!</i>"),
        ("<b>我叫</b>。<i>再见！</i>", "<b>I am</b>. <i>Bye!</i>"),
        ("<p>你好。</p><p>再见！</p>", "<p>Hello.</p><p>Bye!</p>"),
        ("你好。<br>再见！", "Hello.<br>Bye!"),
        ("你好。\n再见！", "Hello.\nBye!"),
        ("你好。<img src=a>再见！", "Hello. <img src=a>Bye!"),
    ],
)
def test_in_html_the_space_stands_outside_of_tags(text, expected):
    assert translate(text, Spacing.ADD, is_html=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello. Bye!", "你好。再见！"),
        ("Hello.  Bye!", "你好。  再见！"),
        ("Hello.\n  Bye!\n", "你好。\n  再见！\n"),
        ("1. Hello. Bye!\n2. Hello.", "1. 你好。再见！\n2. 你好。"),
        ("Hello. 😀 Bye!", "你好。😀 再见！"),
        ("Hello. {x}! Bye!", "你好。 {x}！ 再见！"),
        ("Windows. Bye!", "Windows. 再见！"),
        ("Hello. https://a.b Bye!", "你好。https://a.b 再见！"),
    ],
)
def test_after_a_wide_mark_a_single_space_is_dropped(text, expected):
    assert translate(text, Spacing.DROP) == expected


def test_a_sentence_in_pieces_gets_spaces_around_words_and_outside_of_tags():
    format = replace(HTML, spacing=Spacing.ADD)
    text = "我叫<b>安娜</b>和{name}，住在<i>这里</i>。"
    (segment,) = read_html(text, "zh", is_protected=True, format=format).segments
    parts = take_segment_apart(segment, format)
    assert identity(parts) == "我叫 <b>安娜</b> 和 {name}，住在 <i>这里</i>."


TEXT = st.lists(
    st.sampled_from(
        ["你好。", "a b. ", "\n", " ", "\u3000", "😀", "{x}", "<b>", "</b>"]
    )
    | st.text(max_size=5)
).map("".join)


@given(TEXT, st.booleans(), st.sampled_from(Spacing))
def test_only_spaces_and_lone_signs_ever_change(text, is_html, spacing):
    format = replace(HTML if is_html else PLAIN, spacing=spacing)
    read = read_html if is_html else read_text
    document = read(text, "zh", is_protected=True, format=format)
    parts = [take_segment_apart(segment, format) for segment in document.segments]
    plain = read(text, "zh", is_protected=True)
    expected = squeeze(identity(plain))
    assert squeeze(identity(document)) == expected
    assert squeeze(document.render(map(identity, parts))) == expected


def squeeze(text: str) -> str:
    return "".join(text.split()).translate(str.maketrans("。！？，、；：", ".!?,,;:"))
