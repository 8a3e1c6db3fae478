"""Subtitles: cues, lines and sentences."""

from __future__ import annotations

import pytest

from documents.errors import DamagedDocument
from documents.formats.subtitles import divide
from tests.documents.formats.translating import keep, read, shout, translate

TIMES = "00:00:01,000 --> 00:00:02,000"


def make_cues(*cues: str) -> str:
    return "".join(f"{n}\n{TIMES}\n{cue}\n\n" for n, cue in enumerate(cues, 1))


@pytest.mark.parametrize(
    ("cues", "texts"),
    [
        (["Hello there."], ["Hello there."]),
        (["Hello\nthere."], ["Hello there."]),
        (["- Hello.\n- Hi."], ["- Hello.", "- Hi."]),
        (["<i>Hello</i>\n{\\an8}there"], ['<g id="1">Hello</g> <x id="2"/>there']),
        (["I think that", "you are right."], ["I think that you are right."]),
        (["I think.", "you are right."], ["I think.", "you are right."]),
        (["I think that", "- you?"], ["I think that", "- you?"]),
        (["<i>I think", "you</i>"], ['<x id="1"/>I think', 'you<x id="1"/>']),
        (["a", "b", "c", "d"], ["a b c", "d"]),
        (["a " * 120, "b " * 10], ["a " * 119 + "a", "b " * 9 + "b"]),
        (["One\n\ntwo."], ["One two."]),
        (["42", "♪"], []),
        (["1 < 2 & so"], ["1 &lt; 2 &amp; so"]),
        (["我想\n你是对的。"], ["我想你是对的。"]),
    ],
)
def test_texts_of_subtitles(cues, texts):
    content = make_cues(*cues)
    assert read("a.srt", content.encode()) == texts
    assert translate("a.srt", content.encode(), keep) == content.encode()
    new = translate("a.srt", content.encode(), shout).decode()
    assert new.lower() == content.lower()


def test_webvtt_keeps_what_is_no_cue():
    content = """WEBVTT - A title

NOTE
A note --x

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start position:10%
<v Bob>Fish &amp; <c.loud>chips</c>
for <00:01.500>all</v>

Not a cue
"""
    new = content.replace("Fish", "FISH").replace("chips", "CHIPS")
    new = new.replace("for <", "FOR <").replace(">all", ">ALL")
    assert translate("a.vtt", content.encode(), shout).decode() == new


def test_a_translation_is_divided_among_the_lines_of_its_cues():
    content = make_cues("I think\nthat you", "are right about it.")
    new = translate(
        "a.srt", content.encode(), lambda _: "eins zwei drei vier fünf sechs"
    )
    assert new.decode() == make_cues("eins\nzwei drei", "vier fünf sechs")


@pytest.mark.parametrize(
    ("text", "lengths", "lines"),
    [
        ("one two three four", [5, 5], ["one two", "three four"]),
        ("one two three four", [1, 9], ["one", "two three four"]),
        ("one", [5, 5], ["one", ""]),
        ("", [5], [""]),
        ("<i>one two</i>", [3, 3], ["<i>one", "two</i>"]),
        ("我想你是对的。", [2, 4], ["我想", "你是对的。"]),
        ("one\u00a0two", [3], ["one\u00a0two"]),
    ],
)
def test_a_text_is_divided_between_words(text, lengths, lines):
    assert divide(text, lengths) == lines


def test_a_translation_cannot_look_like_times():
    new = translate(
        "a.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\na\n", lambda _: "b --> c"
    )
    assert new.endswith("\nb → c\n".encode())


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.srt", "Just text", "no times"),
        ("a.vtt", f"1\n{TIMES}\nHello", "first line is not WEBVTT"),
    ],
)
def test_what_are_no_subtitles_is_an_error(name, content, fault):
    with pytest.raises(DamagedDocument, match=fault):
        read(name, content.encode())
