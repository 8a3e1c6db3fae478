"""The findings of the guard, and their absence in translations by people."""

import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.languages import LANGUAGES
from handlers.engine.translation.guard import Fault, find_fault
from models.phrasebook_recipe.corpus import Corpus, TextPair
from models.phrasebook_recipe.items import LANGUAGES as CORPUS_LANGUAGES

LONG = (
    "We would like to reserve a table for six people on Saturday evening, "
    "if possible near the window, and one of us does not eat any meat at all."
)
LONG_KO = (
    "토요일 저녁에 여섯 명이 앉을 자리를 예약하고 싶은데 가능하면 창가 쪽으로 부탁드리고 "
    "저희 중 한 명은 고기를 전혀 먹지 않습니다."
)
LONG_ZH = (
    "我们想预订星期六晚上的六人桌，如果可以的话请安排在靠窗的位置，"
    "我们中有一位完全不吃肉。"
)

FAULTS: dict[str, tuple[str, str, str, Fault]] = {
    "nothing": ("Hello", "", "de", Fault.EMPTY),
    "blanks": ("Hello", " \n", "de", Fault.EMPTY),
    "a word": ("The dog barks", "Der Hund Hund Hund Hund Hund", "de", Fault.LOOP),
    "a word without spaces": ("I do not know", "我不我不我不我不知道", "zh", Fault.LOOP),
    "a sentence": (LONG, "Wir möchten einen Tisch. " * 3, "de", Fault.LOOP),
    "a sign": ("Hello there", "Hallo" + " -" * 20, "de", Fault.LOOP),
    "a letter": ("Ah", "A" + "a" * 20, "de", Fault.LOOP),
    "more often than the text": ("no no no no", "nein " * 12, "de", Fault.LOOP),
    "too long": ("Good morning", LONG, "en", Fault.RATIO),
    "too short": (LONG, "Ja", "de", Fault.RATIO),
    "copied": ("Where is the station?", "where is the station", "ko", Fault.UNTRANSLATED),
    "another language": ("Where is the station?", "où se trouve la gare", "ko", Fault.SCRIPT),
    "Korean for German": ("Good morning everybody", "안녕하세요 여러분", "de", Fault.SCRIPT),
    "a word of its own": (LONG, LONG.lower() + " 네", "ko", Fault.UNTRANSLATED),
}  # fmt: skip

RIGHT: dict[str, tuple[str, str, str]] = {
    "a translation": (LONG, LONG_KO, "ko"),
    "from few characters": (LONG_ZH, LONG, "en"),
    "nothing of nothing": ("", "", "de"),
    "other signs": ("...", "…", "zh"),
    "a text that repeats itself": ("la la la la la la", "ла ла ла ла ла ла", "ru"),
    "for effect": ("Nooooo!", "Neeeeeein!", "de"),
    "a line to write on": ("Name: ____________", "Имя: ____________", "ru"),
    "a layout": ("Name        Price", "이름                        가격", "ko"),
    "doubled words": ("butterflies and others", "kupu-kupu dan lain-lain", "id"),
    "names": ("Barack Obama, Angela Merkel", "Barack Obama, Angela Merkel", "ko"),
    "an address": ("www.example.com/index", "www.example.com/index", "ru"),
    "a short text in another script": ("taxi", "taxi", "zh"),
    "Japanese in Chinese characters": ("Tokyo", "東京都千代田区永田町一丁目", "ja"),
    "code": ("Use getaddrinfo() here", "此处用 getaddrinfo()", "zh"),
    "a language that is not known": ("Good morning", "qapla' batlh daqawlu'taH", "tlh"),
}


@pytest.mark.parametrize(
    ("text", "translated", "target", "fault"),
    [*FAULTS.values(), *((*right, None) for right in RIGHT.values())],
    ids=[*FAULTS, *RIGHT],
)
def test_a_fault_is_found_and_a_right_translation_has_none(
    text: str, translated: str, target: str, fault: Fault | None
):
    assert find_fault(text, translated, "en", target) is fault


@pytest.mark.slow
def test_nothing_of_the_phrasebook_has_a_fault(pairs: list[TextPair]):
    """These are translations by people, between 14 languages in 7 scripts."""
    assert [pair for pair in pairs if judge(pair)] == []


@given(st.text(max_size=200), st.sampled_from([*LANGUAGES]))
def test_a_copy_has_no_other_fault(text: str, target: str):
    fault = Fault.SCRIPT if target == "en" else Fault.UNTRANSLATED
    assert find_fault(text, text, "en", target) in (None, fault)


COPY = Fault.UNTRANSLATED
ECHOES: dict[str, tuple[str, str, Fault | None]] = {
    "a sentence": ("where is the station", "en-de", COPY),
    "with placeholders": ("your {0} costs about {price} today", "en-de", COPY),
    "between tags": ("{0}Where is the station?{1}", "en-fr", COPY),
    "with nouns in capitals": ("Haben Sie WLAN im Zimmer?", "de-en", COPY),
    "with a number": ("Rapatnya dimulai pukul 06:17.", "id-en", COPY),
    "in characters": ("现在几点？", "zh-ja", COPY),
    "in syllables": ("학교에갑니다", "ko-de", COPY),
    "between siblings, long": (LONG, "da-no", COPY),
    "between siblings": ("Bredde og høyde i tegn", "da-no", None),
    "in one language": (LONG, "en-en", None),
    "few words": ("in New York", "en-de", None),
    "names": ("Anna Schmidt, John Smith and Li Wei", "en-de", None),
    "German names": ("Bayerische Motoren Werke München", "de-en", None),
    "a date": ("sábado, 10 de agosto de 2047", "es-pt", None),
    "a date in characters": ("2047年8月10日", "zh-ja", None),
    "codes": ("a.b() <c> d/e f=1 [g] 5%", "en-de", None),
    "placeholders": ("{0} {1} {name} {count}", "en-de", None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "pair", "fault"), ECHOES.values(), ids=ECHOES)
def test_a_text_that_is_its_own_translation(text: str, pair: str, fault: Fault | None):
    assert find_fault(text, text, *pair.split("-")) is fault


@pytest.mark.parametrize(
    ("translated", "fault"),
    [
        ("we WOULD “like” to have a table here", COPY),
        ("Wir would like to have a table here.", COPY),
        ("Wir würden like to have a table here.", None),
        ("Hier bitte ein Tisch: We would like to have a table here.", None),
    ],
    ids=["capitals and marks", "a word", "two words", "beside a translation"],
)
def test_a_text_that_is_nearly_its_own_translation(translated, fault):
    text = "We would like to have a table here."
    assert find_fault(text, translated, "en", "de") is fault


def test_a_copy_may_have_its_accents_apart():
    text, copy = "Die Katze schläft schön", "Die Katze schla\u0308ft scho\u0308n"
    assert find_fault(copy, text, "de", "ru") is COPY
    assert (
        find_fault("Pare aquí, por favor", "Pare aqui, por favor", "es", "pt") is None
    )


def judge(pair: TextPair) -> Fault | None:
    languages = pair.source_language, pair.target_language
    return find_fault(pair.source, pair.target, *languages)


def test_the_phrasebooks_true_copies_are_let_alone(corpus: Corpus):
    """Names, dates, "Taxi": correct translations that equal their source."""
    same = {
        pair
        for pair in [*corpus.finite(), *corpus.held_out(4000)]
        if fold(pair.source) == fold(pair.target)
    }
    assert len(same) > 5000
    touched = [pair for pair in same if judge(pair)]
    assert len(touched) <= len(same) / 100, touched


@cache
def fold(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def count_words(text: str, language: str) -> float:
    return len(text) / 1.5 if language in ("zh", "ja") else len(text.split())


@pytest.mark.parametrize("source", CORPUS_LANGUAGES)
def test_echoed_sentences_are_found(corpus: Corpus, source: str):
    rng = random.Random(1)
    sentences = {
        text
        for phrase in corpus.phrases
        for text in phrase.draw(rng).wordings(source)
        if count_words(text, source) >= 4
    }
    assert len(sentences) > 100
    for target in {*CORPUS_LANGUAGES} - {source}:
        found = [
            text for text in sentences if find_fault(text, text, source, target) is COPY
        ]
        assert len(found) >= 0.95 * len(sentences), target


@given(st.text(min_size=1, max_size=30), st.integers(4, 20))
def test_a_text_that_goes_round_and_round_is_a_loop(unit: str, times: int):
    letters = "".join(c for c in unit if c.isalpha())
    if len(set(letters)) > 1 and times * len(letters) >= 8:
        text = "Where is the nearest hospital?"
        assert find_fault(text, letters * times, "en", "xx") is Fault.LOOP
