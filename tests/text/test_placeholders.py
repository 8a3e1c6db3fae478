"""Placeholders are protected, hidden from the model, and put back."""

import sys

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tests.text.cases import list_rows
from text.placeholders import (
    Placeholder,
    Role,
    fill,
    find_protected,
    restore,
    substitute,
)


@pytest.mark.parametrize(("text", "expected"), list_rows("protected"))
def test_what_must_survive_is_found(text, expected):
    assert [p.shown for p in find_protected(text)] == expected


@pytest.mark.parametrize(
    "kept",
    ["https://a.b/c?d=1", "www.example.org", "ann.lee+x@example.co.uk", "{count}", "%s"]
    + [":smile:", "`a`", "5 km", "ACME-42", "v2.10.3"],
)
def test_letters_without_spaces_are_no_part_of_what_they_touch(kept):
    frames = ("私の名前は{}です。", "我叫{}。", "제 이름은 {}입니다.", "ดูที่{}ได้", "({})")
    for frame in frames:
        text = frame.replace("{}", kept)
        assert [p.shown for p in find_protected(text)] == [kept], text


def test_every_character_that_is_protected_alone_is_found():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    protected = set(regex.findall(r"\p{Extended_Pictographic}", every))
    alone = {sign for sign in protected if find_protected(f"a {sign} b")}
    assert alone == protected


@given(st.text())
def test_a_model_that_copies_placeholders_loses_nothing(text):
    placeholders, end = find_protected(text), 0
    assert restore(substitute(text, placeholders), placeholders, str) in (text, None)
    assert fill(text, placeholders, [p.shown for p in placeholders]) == text
    for placeholder in placeholders:
        assert end <= placeholder.start < placeholder.end
        assert placeholder.shown == text[placeholder.start : placeholder.end]
        end = placeholder.end


@pytest.mark.parametrize(("translated", "expected"), list_rows("tags in translations"))
def test_tags_come_back_once_each_and_in_order(translated, expected):
    opening = Placeholder(0, 0, "<b>", Role.OPENING)
    closing = Placeholder(1, 1, "</b>", Role.CLOSING)
    escape = lambda text: text.replace("&", "&amp;")  # noqa: E731
    assert restore(translated, [opening, closing], escape) == expected
    outer = [closing, opening._replace(start=2, end=2)]
    assert restore("{0} und {1}a", outer, escape) is None
    assert restore("a{0} und {1}", outer, escape) is None
    assert restore("{1} - {0}", find_protected("{a} {b}"), str) == "{b} - {a}"
    assert restore("{0}", [], str) == "{0}"
