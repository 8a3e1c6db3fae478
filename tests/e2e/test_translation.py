"""Right translations through port 7777, in every direction."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import count, permutations
from typing import Any

import requests

from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Pair
from models.phrasebook_recipe.items import LANGUAGES, Item, clean

NEWCOMERS = (
    "Hello|Hello world|Hello, how are you?|Good morning|Thank you very much|"
    "What is your name?|My name is Anna|Nice to meet you|I love you|"
    "How much does it cost?|Where is the station?|The weather is nice today|"
    "See you tomorrow|This is a test|Yes|No|Please|Sorry"
).split("|")


def translate(url: str, text: Any, source: str, target: str) -> Any:
    body = {"src_lang": source, "src_text": text, "tgt_lang": target}
    response = requests.post(url, json=body, timeout=60)
    assert response.status_code == 200, response.text
    return response.json()["translated"]


def translate_pairs(url: str, pairs: list[Pair]) -> list[str]:
    """Each pair's translation; many clients at once, so that batches fill."""
    with ThreadPoolExecutor(128) as clients:
        return list(
            clients.map(
                lambda p: translate(
                    url, p.source, p.source_language, p.target_language
                ),
                pairs,
            )
        )


def share_right(pairs: list[Pair], answers: list[str]) -> float:
    """The share of answers that are the reference to the letter."""
    right = [clean(a) == p.target for p, a in zip(pairs, answers, strict=True)]
    return sum(right) / len(right)


def draw_dated_pairs() -> list[Pair]:
    """In each of the 182 directions a sentence with a random date."""
    rng = random.Random()
    dated = [p for p in phrasebook.load() if "date" in p.slots]
    pairs = []
    for source, target in permutations(LANGUAGES, 2):
        item = rng.choice(dated).draw(rng)
        pairs.append(
            Pair(item.category, source, target, item.text(source), item.text(target))
        )
    return pairs


def test_a_sentence_with_a_random_date_is_right_in_nearly_all_directions(url: str):
    pairs = draw_dated_pairs()
    assert share_right(pairs, translate_pairs(url, pairs)) >= 0.95


def newcomer_pairs() -> list[Pair]:
    """What a newcomer types first, in all directions and some spellings."""
    turns = count()
    return [
        vary_typing(item, source, target, next(turns))
        for phrase in phrasebook.load()
        for item in phrase.all_items(random.Random(0), most=40)
        if item.text("en").rstrip(".") in NEWCOMERS
        for source, target in permutations(LANGUAGES, 2)
        if source not in phrase.ambiguous_in
    ]


def vary_typing(item: Item, source: str, target: str, turn: int) -> Pair:
    text = item.text(source)
    bare = text.rstrip(".!?。！？।؟ ").lstrip("¿¡")
    wording = (text, bare, text[:1].lower() + text[1:])[turn % 3]
    return Pair(item.category, source, target, wording, item.text(target))


def test_what_a_newcomer_types_first_is_right_in_all_languages(url: str):
    pairs = newcomer_pairs()
    assert len({p.target for p in pairs if p.target_language == "en"}) == len(NEWCOMERS)
    answers = translate_pairs(url, pairs)
    wrong = [
        f"{p.source_language}>{p.target_language} {p.source}: {a}"
        for p, a in zip(pairs, answers, strict=True)
        if clean(a) != p.target
    ]
    assert len(wrong) <= len(pairs) * 0.003, wrong[:40]


def test_text_outside_the_domain_ends_and_carries_a_warning(url: str):
    text = (
        "The committee postponed its verdict on quantum gravity until further notice."
    )
    body = {"src_lang": "en", "src_text": text, "tgt_lang": "fr"}
    answer = requests.post(url, json=body, timeout=60).json()
    assert answer["translated"]
    assert "demonstration" in answer["warnings"][0]


def test_1000_mixed_requests_each_get_one_right_answer_or_the_tables_error(url: str):
    rng = random.Random(7)
    greetings = {
        language: translate(url, "Good evening", "en", language)
        if language != "en"
        else ""
        for language in LANGUAGES
    }

    def ask(number: int) -> tuple[int, bool]:
        kind = rng.random()
        target = rng.choice([language for language in LANGUAGES if language != "en"])
        text = "word 1 " * 300 if kind < 0.01 else "Good evening"
        body: dict[str, Any] = {"src_lang": "en", "src_text": text, "tgt_lang": target}
        if 0.01 <= kind < 0.06:
            body["src_text"] = {"not": "text"}
        response = requests.post(url, json=body, timeout=60)
        if 0.01 <= kind < 0.06:
            return response.status_code, response.status_code == 422
        answer = response.json().get("translated")
        if kind < 0.01:
            return response.status_code, bool(answer)
        return response.status_code, answer == greetings[target]

    with ThreadPoolExecutor(1000) as clients:
        outcomes = list(clients.map(ask, range(1000)))
    wrong = [outcome for outcome in outcomes if not outcome[1]]
    assert wrong == []
