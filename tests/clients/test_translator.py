"""Texts of which some cannot be translated, and stacks that cannot translate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.errors import ServerError
from clients.server import ApiClient, RetryPolicy
from clients.tables import TextReply
from clients.translator import (
    LONGEST_PIECE,
    MAX_CHARACTERS,
    MAX_TEXTS,
    TranslationOptions,
    Translator,
    cut,
    group,
)
from tests.fake_api import FakeApi, blame, blame_text

TEXTS = [f"text {number}" for number in range(8)]
TRANSLATED = [TextReply(f"[{text}]") for text in TEXTS]


@pytest.fixture
def translator(stack: FakeApi) -> Iterator[Translator]:
    with ApiClient(stack.url, RetryPolicy(attempts=6, timeout_s=30)) as server:
        yield Translator(server, TranslationOptions("fr", "en"))


def test_texts_are_translated_in_one_request(stack, translator):
    assert translator.translate(TEXTS) == TRANSLATED
    assert stack.bodies == [
        {"src_text": TEXTS, "src_lang": "en", "tgt_lang": "fr", "format": "text"}
    ]


@pytest.mark.parametrize("status", [400, 413, 422, 500, 503, 504])
def test_a_text_that_fails_is_an_error_and_the_others_are_translated(
    stack, translator, status
):
    stack.judge = blame_text("text 5", status)
    replies = translator.translate(TEXTS)
    assert replies[5] == TextReply(None, error=f"{status} because of {status}")
    assert [*replies[:5], *replies[6:]] == [*TRANSLATED[:5], *TRANSLATED[6:]]


@pytest.mark.parametrize("status", [429, 500, 503, 504])
def test_what_passes_is_no_error(stack, translator, status):
    stack.failures.extend([blame(status)] * 2)
    assert translator.translate(["text 0"]) == [TRANSLATED[0]]


def test_busy_halves_are_waited_for(stack, translator):
    stack.failures.extend(map(blame, [500, *[429] * 5]))
    assert translator.translate(TEXTS) == TRANSLATED


@pytest.mark.parametrize(
    ("status", "is_ready"),
    [(401, True), (403, True), (404, True), (429, True), (503, False), (500, False)],
)
def test_a_stack_that_cannot_translate_ends_it(stack, translator, status, is_ready):
    stack.is_ready = is_ready
    stack.failures.extend([blame(status)] * 100)
    with pytest.raises(
        ServerError, match=f"/translate: {status} src_text.* because of {status}"
    ):
        translator.translate(["text 0"])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({}, "no translations"),
        ({"translated": "a"}, "no translations"),
        ({"translated": [None]}, "no translations"),
        ([], "no translations"),
        ({"translated": ["a", "b"]}, "expected 1 translations"),
    ],
)
def test_an_answer_without_the_translations_ends_it(stack, translator, answer, reason):
    stack.answer = answer
    with pytest.raises(ServerError, match=f"/translate: {reason}"):
        translator.translate(["a"])


def test_a_language_that_is_not_served_is_said_before_anything_is_sent(
    stack, translator
):
    with pytest.raises(ServerError, match="422 No xx here"):
        Translator(translator.server, TranslationOptions("xx")).check()
    translator.check()
    assert stack.bodies == []


def test_a_warning_comes_to_its_text(stack, translator):
    stack.warn = lambda text: f"about {text}" if text == "text 3" else None
    warnings = [reply.warning for reply in translator.translate(TEXTS)]
    assert warnings == [None, None, None, "about text 3", None, None, None, None]


@pytest.mark.parametrize(
    ("texts", "lengths"),
    [
        ([], []),
        (["a"], [1]),
        (["a"] * (2 * MAX_TEXTS + 1), [MAX_TEXTS, MAX_TEXTS, 1]),
        (["a" * (MAX_CHARACTERS // 2)] * 3, [2, 1]),
        (["a", "b" * (MAX_CHARACTERS + 1), "c", "d"], [1, 1, 2]),
    ],
    ids="none one many large too-large".split(),
)
def test_requests_have_a_limited_size(texts, lengths):
    groups = list(group(texts))
    assert [len(each) for each in groups] == lengths
    assert [text for each in groups for text in each] == texts


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [""]),
        ("0123456789", ["0123456789"]),
        ("line\nline\nli", ["line\n", "line\nli"]),
        ("a b. c d. e f", ["a b. ", "c d. e f"]),
        ("五字。五字。五字。五字", ["五字。五字。", "五字。五字"]),
        ("aaa bbb ccc", ["aaa ", "bbb ccc"]),
        ("0123456789abcdef", ["01234567", "89abcdef"]),
    ],
    ids="empty short lines sentences no-spaces words nothing".split(),
)
def test_a_long_text_is_cut_where_it_harms_least(text, pieces):
    assert cut(text, 10) == pieces


def test_a_text_of_any_length_is_translated(stack, translator):
    line = "One sentence. Another one.\n"
    text = line * (3 * LONGEST_PIECE // len(line))
    assert all(0 < len(piece) <= LONGEST_PIECE for piece in cut(text, LONGEST_PIECE))
    stack.translate = str.upper
    replies = translator.translate(["a", text, "b"])
    assert [reply.text for reply in replies] == ["A", text.upper(), "B"]
    assert len(stack.texts) >= 5


def test_a_piece_that_fails_is_the_error_of_its_text(stack, translator):
    text = ("x" * (LONGEST_PIECE - 1) + "\n") * 2
    stack.judge = blame_text("x" * (LONGEST_PIECE - 1) + "\n", 413)
    assert translator.translate([text]) == [TextReply(None, error="413 because of 413")]


def test_markup_is_not_cut(stack, translator):
    text = "<p>a</p>\n" * LONGEST_PIECE
    Translator(translator.server, TranslationOptions("fr", format="html")).translate(
        [text]
    )
    assert stack.texts == [text]
