"""Texts in capitals, and each language's capitals and small letters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.capitals import count_words, to_capitals, to_sentence_case


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("HELLO, HOW ARE YOU?", "en", 4),
        ("I AM {0} YEARS OLD", "en", 4),
        ("ГДЕ ВОКЗАЛ?", "ru", 2),
        ("ΠΟΥ ΕΙΝΑΙ Ο ΣΤΑΘΜΟΣ;", "el", 4),
        ("STRAßE GESPERRT", "de", 2),
        ("HABITACIÓN Nº 5", "es", 2),
        ("SAVE", "en", 1),
        ("U.S.A.", "en", 0),
        ("J. F. K.", "en", 0),
        ("Hello, NASA AND ESA", "en", 0),
        ("THE iPHONE", "en", 0),
        ("NASAとESA", "ja", 0),
        ("USB OK", "ja", 0),
        ("안녕 하세요", "ko", 0),
        ("12 - 34", "en", 0),
        ("", "en", 0),
    ],
)
def test_words_in_capitals_are_counted(text, language, words):
    assert count_words(text, language) == words


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("HELLO, HOW ARE YOU?", "en", "Hello, how are you?"),
        ("HERE I AM, AND I'M FINE", "en", "Here I am, and I'm fine"),
        ("¿DÓNDE ESTÁ?", "es", "¿Dónde está?"),
        ("{0} IST DA", "de", "{0} Ist da"),
        ("IŞIK İSTANBUL'DA", "tr", "Işık istanbul'da"),
        ("ΟΣ ΟΔΟΣ ΣΑΣ", "el", "Ος οδος σας"),
        ("12", "en", "12"),
    ],
)
def test_a_sentence_begins_with_a_capital(text, language, expected):
    assert to_sentence_case(text, language) == expected


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Où est {0} ?", "fr", "OÙ EST {0} ?"),
        ("Große Straße", "de", "GROSSE STRASSE"),
        ("istanbul ışık", "tr", "İSTANBUL IŞIK"),
        ("Καλημέρα σας", "el", "ΚΑΛΗΜΕΡΑ ΣΑΣ"),
        ("ο Μάιος ή το ρολόι", "el", "Ο ΜΑΪΟΣ Ή ΤΟ ΡΟΛΟΪ"),
        ("προϋπόθεση, ευφυΐα", "el", "ΠΡΟΫΠΟΘΕΣΗ, ΕΥΦΥΪΑ"),
        ("το café", "el", "ΤΟ CAFÉ"),
        ("և բարև", "hy", "ԵՎ ԲԱՐԵՎ"),
        ("это", "ru", "ЭТО"),
        ("გამარჯობა ok", "ka", "გამარჯობა ok"),
        ("你好 ok", "zh", "你好 ok"),
    ],
)
def test_capitals_follow_the_languages_rules(text, language, expected):
    assert to_capitals(text, language) == expected


@given(st.text("ABCDEÉÑÖÇŁ {0}19.,!?-"))
def test_a_text_in_capitals_survives_the_way_there_and_back(text):
    assert to_capitals(to_sentence_case(text, "fr"), "fr") == text
