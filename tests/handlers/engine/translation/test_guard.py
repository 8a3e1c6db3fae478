"""The findings of the guard, and that translations by people have none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.languages import LANGUAGES
from handlers.engine.translation.guard import Fault, find_fault
from models.phrasebook_recipe.corpus import TextPair

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
    "not translated": ("Where is the station?", "where is the station", "ko", Fault.SCRIPT),
    "Korean for German": ("Good morning everybody", "안녕하세요 여러분", "de", Fault.SCRIPT),
    "a word of its own": (LONG, LONG.lower() + " 네", "ko", Fault.SCRIPT),
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
    ("text", "translated", "target", "fault"), FAULTS.values(), ids=FAULTS.keys()
)
def test_a_fault_is_found(text: str, translated: str, target: str, fault: Fault):
    assert find_fault(text, translated, target) is fault


@pytest.mark.parametrize(
    ("text", "translated", "target"), RIGHT.values(), ids=RIGHT.keys()
)
def test_a_right_translation_has_no_fault(text: str, translated: str, target: str):
    assert find_fault(text, translated, target) is None


@pytest.mark.slow
def test_nothing_of_the_phrasebook_has_a_fault(pairs: list[TextPair]):
    """Translations that people made, between 14 languages in 7 scripts."""
    faulty = [p for p in pairs if find_fault(p.source, p.target, p.target_language)]
    assert faulty == []


@given(st.text(max_size=200), st.sampled_from(LANGUAGES))
def test_a_copy_is_at_fault_for_its_script_at_most(text: str, target: str):
    assert find_fault(text, text, target) in (None, Fault.SCRIPT)


@given(st.text(min_size=1, max_size=30), st.integers(4, 20))
def test_a_text_that_goes_round_and_round_is_a_loop(unit: str, times: int):
    letters = "".join(c for c in unit if c.isalpha())
    if len(set(letters)) > 1 and times * len(letters) >= 8:
        fault = find_fault("Where is the nearest hospital?", letters * times, "xx")
        assert fault is Fault.LOOP
