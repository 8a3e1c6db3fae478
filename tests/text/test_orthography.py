"""Translations get the final marks and capitals of their text, by their language's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.orthography import count_words, mend, to_capitals, to_sentence_case

LANGUAGES = "ar de el en es fr hi hy it ja ko pt ru th ur vi zh".split()


@pytest.mark.parametrize(
    ("target", "translated", "expected"),
    [
        ("fr", "Merci", ("Merci.", "Merci !", "Merci ?", "Merci…")),
        ("zh", "谢谢", ("谢谢。", "谢谢！", "谢谢？", "谢谢……")),
        ("hi", "धन्यवाद", ("धन्यवाद।", "धन्यवाद!", "धन्यवाद?", "धन्यवाद…")),
        ("ar", "شكرا", ("شكرا.", "شكرا!", "شكرا؟", "شكرا…")),
        ("el", "Ευχαριστώ", ("Ευχαριστώ.", "Ευχαριστώ!", "Ευχαριστώ;", "Ευχαριστώ…")),
        ("es", "Gracias", ("Gracias.", "¡Gracias!", "¿Gracias?", "Gracias…")),
    ],
)
def test_a_lost_mark_comes_back_in_the_targets_form(target, translated, expected):
    texts = ("Thanks.", "Thanks!", "Thanks?", "Thanks…")
    assert tuple(mend(text, translated, "en", target) for text in texts) == expected


@pytest.mark.parametrize(
    ("text", "source", "translated", "target", "expected"),
    [
        pytest.param("Thanks!", "en", "谢谢。", "zh", "谢谢！", id="exchanged"),
        pytest.param("谢谢！", "zh", "Gracias.", "es", "¡Gracias!", id="and opened"),
        pytest.param("Help.", "en", "¡Socorro!", "es", "Socorro.", id="and closed"),
        pytest.param("Wait...", "en", "等等", "zh", "等等……", id="six dots"),
        pytest.param("What?!", "en", "什么", "zh", "什么？！", id="two marks"),
        pytest.param("What?!", "en", "Qué", "es", "¡¿Qué?!", id="two marks in Spanish"),
        pytest.param("τι;", "el", "What", "en", "What?", id="a Greek question"),
        pytest.param("Who?", "en", "¿Quién", "es", "¿Quién?", id="opened before"),
        pytest.param("Where?", "en", "どこですか。", "ja", "どこですか？", id="か。"),
        pytest.param("Go to {0}!", "en", "去{0}", "zh", "去{0}！", id="a placeholder"),
        ("Save", "en", "Enregistrez.", "fr", "Enregistrez"),
        ("Where is it", "en", "¿Dónde está?", "es", "Dónde está"),
        ("Save the file", "en", "保存文件。", "zh", "保存文件"),
        ("at 8:15", "en", "um 8.15 Uhr.", "de", "um 8.15 Uhr"),
        ("Go now", "en", "Đi đi.", "vi", "Đi đi"),
        ("the “best”", "en", "le « meilleur ».", "fr", "le « meilleur »"),
    ],
)
def test_what_the_text_says_at_its_end_the_translation_says(
    text, source, translated, target, expected
):
    assert mend(text, translated, source, target) == expected


@pytest.mark.parametrize(
    ("text", "source", "translated", "target"),
    [
        ("A bag?", "en", "봉투 주세요.", "ko"),
        pytest.param("どこですか。", "ja", "Where is it?", "en", id="か。"),
        pytest.param("そうですか。", "ja", "I see", "en", id="か。 that asks nothing"),
        pytest.param("Really!", "en", "本当ですか？", "ja", id="another strong mark"),
        pytest.param("Well", "en", "Bon…", "fr", id="an ellipsis"),
        pytest.param("at 5 p.m.", "en", "um 17 Uhr", "de", id="an abbreviation"),
        pytest.param("17 Uhr", "de", "5 p.m.", "en", id="its translation"),
        pytest.param("Firma", "de", "Acme Inc.", "en", id="a known abbreviation"),
        pytest.param("5 thousand", "en", "5 тыс.", "ru", id="after a number"),
        pytest.param("the third", "en", "der 3.", "de", id="an ordinal"),
        pytest.param("Name:", "en", "Nom", "fr", id="a colon"),
        pytest.param("“Hi!”", "en", "« Salut »", "fr", id="inside a quotation"),
        pytest.param("Hi", "en", "« Salut ! »", "fr", id="only there inside one"),
        pytest.param("Hi!", "en", "สวัสดี", "th", id="a language without marks"),
        pytest.param("สวัสดี", "th", "Hello.", "en", id="its sentences"),
        pytest.param("שלום.\u200f", "he", "Hello.", "en", id="a mark of direction"),
        pytest.param("Hi!", "en", "", "fr", id="an empty translation"),
        pytest.param("...", "en", "Bon", "fr", id="only marks"),
        pytest.param("Bon", "fr", "...", "en", id="only marks in the answer"),
    ],
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


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("HELLO, HOW ARE YOU?", "en", 4),
        ("STRAßE GESPERRT", "de", 2),
        ("HABITACIÓN Nº 5", "es", 2),
        ("SAVE", "en", 1),
        ("U.S.A.", "en", 0),
        ("Hello, NASA AND ESA", "en", 0),
        ("THE iPHONE", "en", 0),
        ("NASAとESA", "ja", 0),
        ("", "en", 0),
    ],
)
def test_words_in_capitals_are_counted(text, language, words):
    assert count_words(text, language) == words


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("HELLO, HOW ARE YOU?", "en", "Hello, how are you?"),
        ("¿DÓNDE ESTÁ?", "es", "¿Dónde está?"),
        ("HI, HI AND I", "en", "Hi, hi and I"),
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
        ("Große Straße", "de", "GROSSE STRASSE"),
        ("istanbul ışık", "tr", "İSTANBUL IŞIK"),
        ("ο Μάιος ή το ρολόι", "el", "Ο ΜΑΪΟΣ Ή ΤΟ ΡΟΛΟΪ"),
        ("το café", "el", "ΤΟ CAFÉ"),
        ("և բարև", "hy", "ԵՎ ԲԱՐԵՎ"),
        ("გამარჯობა ok", "ka", "გამარჯობა ok"),
        ("你好 ok", "zh", "你好 ok"),
    ],
)
def test_capitals_follow_the_languages_rules(text, language, expected):
    assert to_capitals(text, language) == expected


@given(st.text("ABCDEÉÑÖÇŁ {0}19.,!?-"))
def test_a_text_in_capitals_survives_the_way_there_and_back(text):
    assert to_capitals(to_sentence_case(text, "fr"), "fr") == text
