"""Conversion of texts between the variants and scripts of a language."""

import pytest

from models.phrasebook_recipe import phrasebook
from text.variants import convert


@pytest.mark.parametrize(
    ("text", "variant", "expected"),
    [
        ("软件在网络上，皇后在后面。", "zh-Hant", "軟體在網路上，皇后在後面。"),
        ("软件在网络上，里面。", "zh-HK", "軟件在網絡上，裏面。"),
        ("軟體在裡面", "zh", "软体在里面"),
        ("軟體在裡面", "zh-Hant", "軟體在裡面"),
        ("软\0件 {0} <b>é", "zh-HK", "軟\0件 {0} <b>é"),
        ("Njegoš i ljubav, džep: {0}.", "sr-Cyrl", "Његош и љубав, џеп: {0}."),
        ("NJEGOŠ, Dž, LJ", "sr-Cyrl", "ЊЕГОШ, Џ, Љ"),
        ("Injekcija, NADŽIVETI", "sr-Cyrl", "Инјекција, НАДЖИВЕТИ"),
        ("c\u030covek i z\u030cena", "sr-Cyrl", "човек и жена"),
        ("odžak, konj", "sr-Cyrl", "оџак, коњ"),
        ("Windows i Luj XIV", "sr-Cyrl", "Windows и Луј XIV"),
        ("iPhone је добар", "sr-Cyrl", "iPhone је добар"),
        ("Љубав, ЊЕГОШ, ПОЉЕ, Џ", "sr-Latn", "Ljubav, NJEGOŠ, POLJE, Dž"),
        ("Injekcija, конь", "sr-Latn", "Injekcija, konь"),
        ("Љубав 软件", "sr", "Љубав 软件"),
    ],
)
def test_a_text_is_written_as_its_variant(text, variant, expected):
    assert convert(text, variant) == convert(expected, variant) == expected


def test_simplified_characters_stay_and_come_back():
    texts = {text for phrase in phrasebook.load() for text in phrase.wordings["zh"]}
    assert len(texts) > 500
    assert {convert(text, "zh") for text in texts} == texts
    back = {text for text in texts if convert(convert(text, "zh-HK"), "zh") == text}
    assert len(back) >= 0.99 * len(texts)
