"""Translations get the final marks and capitals of their text, by their language's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.cases import list_rows
from text.orthography import count_words, mend, to_capitals, to_sentence_case

LANGUAGES = "ar de el en es fr hi hy it ja ko pt ru th ur vi zh".split()


@pytest.mark.parametrize(("target", "translated", "expected"), list_rows("lost marks"))
def test_a_lost_mark_comes_back_in_the_targets_form(target, translated, expected):
    texts = ("Thanks.", "Thanks!", "Thanks?", "Thanks…")
    assert [mend(text, translated, "en", target) for text in texts] == expected


@pytest.mark.parametrize(
    ("text", "source", "translated", "target", "expected"), list_rows("mended marks")
)
def test_what_the_text_says_at_its_end_the_translation_says(
    text, source, translated, target, expected
):
    assert mend(text, translated, source, target) == expected


@pytest.mark.parametrize(
    ("text", "source", "translated", "target"), list_rows("uncertain marks")
)
def test_where_nothing_is_certain_nothing_changes(text, source, translated, target):
    assert mend(text, translated, source, target) == translated


LANGUAGE = st.sampled_from(LANGUAGES)
TEXT = st.text() | st.text("ab .!?…¿¡。！？؟।;か»\"'({0})")


@given(TEXT, LANGUAGE)
def test_a_copy_stays_as_it_is(text, language):
    assert mend(text, text, language, language) == text


@given(TEXT, TEXT, LANGUAGE, LANGUAGE)
def test_only_marks_and_spaces_ever_change_and_once_is_enough(
    text, translated, source, target
):
    mended = mend(text, translated, source, target)
    signs = str.maketrans("", "", ".．｡。।۔!！?？؟…⋯¿¡;\u037e")
    kept, before = (t.translate(signs).split() for t in (mended, translated))
    assert "".join(kept) == "".join(before)
    assert mend(text, mended, source, target) == mended


@pytest.mark.parametrize(("text", "language", "words"), list_rows("words in capitals"))
def test_words_in_capitals_are_counted(text, language, words):
    assert count_words(text, language) == words


@pytest.mark.parametrize(("text", "language", "expected"), list_rows("sentence case"))
def test_a_sentence_begins_with_a_capital(text, language, expected):
    assert to_sentence_case(text, language) == expected


@pytest.mark.parametrize(("text", "language", "expected"), list_rows("capitals"))
def test_capitals_follow_the_languages_rules(text, language, expected):
    assert to_capitals(text, language) == expected


@given(st.text("ABCDEÉÑÖÇŁ {0}19.,!?-"))
def test_a_text_in_capitals_survives_the_way_there_and_back(text):
    assert to_capitals(to_sentence_case(text, "fr"), "fr") == text
