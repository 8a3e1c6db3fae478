"""Values and names as CLDR writes them, in all languages."""

import random
import re

import pytest

from models.phrasebook_recipe import items
from models.phrasebook_recipe.items import LANGUAGES, clean

ENGLISH = {
    "dates": r"([A-Z][a-z]+, )?([A-Z][a-z]+)( \d{1,2})?(,? (19|20)\d\d)?",
    "times": r"\d{1,2}:\d\d [AP]M",
    "relative times": r"in \d+ \w+|\d+ \w+ ago",
    "units": r"[\d.]+ [a-zA-Z° ]+",
    "prices": r"(US\$|\$|€|£|¥|₩|CN¥|₹|R\$|RUB\s?)[\d,]+(\.\d\d)?",
    "numbers": r"[\d,]+(\.\d+)?",
    "percents": r"\d+%",
}


@pytest.mark.parametrize("category", items.DRAWS)
def test_a_value_is_written_in_every_language(category: str):
    rng = random.Random(1)
    for _ in range(30):
        item = items.draw(category, rng)
        assert (item.category, bool(item.key)) == (category, True)
        assert re.fullmatch(ENGLISH[category], item.text("en")), item.text("en")
        for language in LANGUAGES:
            text = item.text(language)
            assert text == clean(text) != ""
            assert not re.search(r"(length|mass|volume|duration)-|[{}]", text), text


def test_no_clock_is_singular():
    """In Spanish, Italian and Portuguese, one o'clock needs a different article."""
    rng = random.Random(3)
    hours = {items.fill_slot("time", rng)["es"][:2] for _ in range(500)}
    assert hours == {f"{hour:02}" for hour in range(24)} - {"01"}


def test_names_are_in_every_language_and_no_two_alike():
    names = items.list_names()
    assert [len(names[kind]) for kind in ("weekdays", "months")] == [7, 12]
    for kind, some in names.items():
        for language in LANGUAGES:
            texts = [item.text(language) for item in some]
            assert all(texts)
            assert len(set(texts)) == len(texts), (kind, language)
    monday, january = names["weekdays"][0], names["months"][0]
    assert [monday.text(lang) for lang in ("en", "ko")] == ["Monday", "월요일"]
    assert [january.text(lang) for lang in ("zh", "ja")] == ["一月", "1月"]
