"""Files of phrases: the phrases with filled slots, and the files that are refused."""

import random

import pytest

from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.items import LANGUAGES, Item
from models.phrasebook_recipe.phrasebook import MASKS, PhrasebookError
from tests.models.phrasebook_recipe.conftest import THINGS, Entry, Write, say


def test_a_slot_takes_its_value_in_each_language_and_wording(write: Write):
    entry = say("I want {thing}.") | {"de": ["Ich will {thing}.", "{thing}, bitte."]}
    phrase, *_ = phrasebook.load(write([entry]))
    item = phrase.fill({"thing": say("tea")})
    assert item.text("ko") == "I want tea ko. ko"
    assert item.wordings("de") == ("Ich will tea de.", "tea de, bitte.")
    assert item.key == "I want {thing}. en|tea en"


def test_a_masked_phrase_has_placeholders_alike_in_all_languages(write: Write):
    phrase, *_ = phrasebook.load(write([say("I want {thing}.")]))
    rng = random.Random(0)
    items = phrase.all_items(random.Random(0), most=40)
    held_out = {item.text("fr") for item in items if item.is_held_out}
    seen = set()
    for _ in range(40):
        item = phrase.draw_masked(rng)
        assert item.category == MASKS
        assert item.text("fr").replace("{0}", "").replace("{1}", "") not in held_out
        forms = {
            "hidden" if item.text(lang) == f"I want {{0}}. {lang}" else "marked"
            for lang in LANGUAGES
        }
        if forms == {"marked"}:
            assert item.text("fr").startswith("I want {0}thing")
            assert item.text("fr").endswith(" fr{1}. fr")
        assert len(forms) == 1
        seen |= forms
    assert seen == {"hidden", "marked"}


def test_where_a_text_has_a_meaning_already_the_earlier_phrase_keeps_it(write: Write):
    hello, morning = say("Hello!"), say("Good morning.")
    morning["fr"] = "HELLO! fr."
    first, second, *_ = phrasebook.load(write([hello, morning]))
    assert first.ambiguous_in == frozenset()
    assert second.ambiguous_in == {"fr"}


def test_every_value_is_a_phrase_and_in_sentences_on_words_if_it_is_clear(write: Write):
    things = [*THINGS, say("milk") | {"es": "thing0 es"}]
    loaded = phrasebook.load(write([say("I want {thing}.")], things=things))
    _, *words, about = loaded
    assert len(words) == len(things)
    assert [value["en"] for value in about.values["word"]] == [t["en"] for t in THINGS]
    assert {word.domain for word in loaded[1:]} == {phrasebook.WORDS}
    (item,) = words[0].all_items(random.Random(0), most=5)
    assert (item.text("it"), item.key) == ("thing0 it", None)


def without(entry: Entry, language: str) -> Entry:
    return {key: text for key, text in entry.items() if key != language}


MISSING = r"shop.yaml: \('Hello en',\): missing or unknown: \['vi'\]"


@pytest.mark.parametrize(
    ("phrase", "said"),
    [
        pytest.param(without(say("Hello"), "vi"), MISSING, id="a language is missing"),
        pytest.param(say("Hi") | {"tlh": "nuqneH"}, r"\['tlh'\]", id="one too many"),
        pytest.param(say("{thing}") | {"hi": ""}, "hi has other slots", id="no slot"),
        pytest.param(say("{nobody}"), "no slot 'nobody'", id="an unknown slot"),
    ],
)
def test_what_breaks_the_format_is_named(write: Write, phrase: Entry, said: str):
    with pytest.raises(PhrasebookError, match=said):
        phrasebook.load(write([phrase]))


def test_a_value_that_is_missing_in_a_language_is_named(write: Write):
    with pytest.raises(PhrasebookError, match="slot thing: 'tea en' is not in all 14"):
        phrasebook.load(write([say("{thing}")], things=[without(say("tea"), "ar")]))


def test_one_key_in_ten_is_held_out_and_always_the_same():
    def make(key: str | None, category: str = "numbers") -> Item:
        return Item(category, key, lambda _: ("text",))

    held_out = [number for number in range(2000) if make(f"{number}").is_held_out]
    assert 150 < len(held_out) < 250
    assert all(make(f"{number}").is_held_out for number in held_out)
    assert not all(make(f"{number}", "prices").is_held_out for number in held_out)
    assert not make(None).is_held_out
