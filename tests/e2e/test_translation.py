"""Right translations through port 7777, in every direction."""

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import count, permutations
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import TextPair
from models.phrasebook_recipe.items import LANGUAGES, Item, clean
from tests.e2e.real_stack import read_metric
from text.orthography import mend

NEWCOMERS = (
    "Hello|Hello world|Hello, how are you?|Good morning|Thank you very much|"
    "What is your name?|My name is Anna|Nice to meet you|I love you|"
    "How much does it cost?|Where is the station?|The weather is nice today|"
    "See you tomorrow|This is a test|Yes|No|Please|Sorry"
).split("|")
OUTSIDE = "The committee postponed its verdict on quantum gravity until further notice."


def post(url: str, body: dict[str, Any]) -> requests.Response:
    """Post a body as the API expects: after a 429, retry once `Retry-After` has passed."""
    again = Retry(10, status_forcelist=[429], allowed_methods=None)
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=again))
        return session.post(url, json=body, timeout=120)


def ask(url: str, text: Any, target: str, **options: Any) -> Any:
    response = post(url, {"src_text": text, "tgt_lang": target} | options)
    assert response.status_code == 200, response.text
    return response.json()


def translate(url: str, text: Any, source: str, target: str) -> Any:
    return ask(url, text, target, src_lang=source)["translated"]


def translate_pairs(url: str, pairs: list[TextPair]) -> list[str]:
    """Return each pair's translation. One client per direction sends all, to fill batches."""
    directions = [(pair.source_language, pair.target_language) for pair in pairs]
    sources = defaultdict(list)
    for direction, pair in zip(directions, pairs, strict=True):
        sources[direction].append(pair.source)
    with ThreadPoolExecutor(len(sources)) as clients:
        found = clients.map(lambda each: translate(url, sources[each], *each), sources)
    answers = dict(zip(sources, map(iter, found), strict=True))
    return [next(answers[direction]) for direction in directions]


def is_right(pair: TextPair, answer: str) -> bool:
    """Whether an answer is exactly the reference, with the source's final punctuation."""
    languages = pair.source_language, pair.target_language
    return clean(answer) == mend(pair.source, pair.target, *languages)


def newcomer_pairs() -> list[TextPair]:
    """A newcomer's first texts, in all directions and some spellings."""
    turns = count()
    return [
        vary_typing(item, source, target, next(turns))
        for phrase in phrasebook.load()
        for item in phrase.all_items(random.Random(0), most=40)
        if item.text("en").rstrip(".") in NEWCOMERS
        for source, target in permutations(LANGUAGES, 2)
        if source not in phrase.ambiguous_in
    ]


def vary_typing(item: Item, source: str, target: str, turn: int) -> TextPair:
    text = item.text(source)
    unmarked = text.rstrip(".!?。！？।؟ ").lstrip("¿¡")
    wording = (text, unmarked, text[:1].lower() + text[1:])[turn % 3]
    return TextPair(item.category, source, target, wording, item.text(target))


def test_what_a_newcomer_types_first_is_right_in_all_languages(url: str):
    pairs = newcomer_pairs()
    assert len({p.target for p in pairs if p.target_language == "en"}) == len(NEWCOMERS)
    answers = translate_pairs(url, pairs)
    wrong = [
        f"{p.source_language}>{p.target_language} {p.source}: {a}"
        for p, a in zip(pairs, answers, strict=True)
        if not is_right(p, a)
    ]
    assert len(wrong) <= len(pairs) * 0.003, wrong[:40]


def test_a_newcomers_first_paragraph(url):
    english = translate(url, "Good morning! Where is the station?", "en", "fr")
    assert english == "Bonjour ! Où est la gare ?"
    text = "こんにちは。駅はどこですか。ありがとうございます。"
    assert translate(url, text, "ja", "fr") == "Bonjour. Où est la gare ? Merci."


def test_a_phrase_is_sure_and_text_outside_the_domain_comes_back_as_it_is(url: str):
    texts = ["Good morning. See you tomorrow", OUTSIDE]
    body = {"src_lang": "en", "src_text": texts, "tgt_lang": "fr", "min_quality": 0.5}
    answer = post(url, body | {"quality": True}).json()
    assert answer["translated"] == ["Bonjour. À demain", OUTSIDE]
    sure, unsure = answer["quality"]
    assert unsure < 0.5 < 0.9 < sure
    (*_, last), (other,) = answer["sentences"]
    assert last["translated"] == "À demain"
    assert other["quality"] == unsure
    warning = f"src_text[1]: its translation's quality is {unsure}"
    assert warning in answer["warnings"][-1]
    assert "demonstration" in answer["warnings"][0]


def test_1000_mixed_requests_each_get_one_right_answer_or_the_tables_error(url: str):
    rng = random.Random(7)
    targets = [language for language in LANGUAGES if language != "en"]
    greetings = {each: translate(url, "Good evening", "en", each) for each in targets}

    others = {"long": "word 1 " * 300, "wrong": {"not": "text"}}
    kinds = rng.choices(["long", "wrong", "usual"], [1, 5, 94], k=1000)

    def ask(kind: str, target: str) -> tuple[int, bool]:
        text = others.get(kind, "Good evening")
        body = {"src_lang": "en", "src_text": text, "tgt_lang": target}
        response = post(url, body)
        if kind == "wrong":
            return response.status_code, response.status_code == 422
        answer = response.json().get("translated")
        is_right = bool(answer) if kind == "long" else answer == greetings[target]
        return response.status_code, is_right

    with ThreadPoolExecutor(1000) as clients:
        outcomes = list(clients.map(ask, kinds, rng.choices(targets, k=1000)))
    assert [status for status, is_right in outcomes if not is_right] == []


def test_equal_sentences_that_come_together_are_translated_once(url: str):
    def ask(number: float) -> str:
        return str(translate(url, f"Good morning, {number}", "en", "fr"))

    different = [random.SystemRandom().random() for _ in range(64)]
    with ThreadPoolExecutor(64) as clients:
        list(clients.map(ask, different))  # now each process knows the model's digest
        before = count_asked(url)
        answers = set(clients.map(ask, [random.SystemRandom().random()] * 64))
    assert len(answers) == 1
    assert count_asked(url) == before + 1


def count_asked(url: str) -> float:
    """Count the sentences that were sent to models."""
    name = "babelgate_cached_rows_total"
    return read_metric(f"{url}/metrics", name, 'outcome="miss"')


def test_the_beginning_of_a_long_text_comes_before_its_end_is_translated(url: str):
    numbers = [random.SystemRandom().random() for _ in range(300)]
    text = "\n".join(f"Good morning, {number}" for number in numbers)
    body = {"src_lang": "en", "src_text": text, "tgt_lang": "fr"}
    before = count_asked(url)
    headers = {"Accept": "text/event-stream"}
    answer = requests.post(url, json=body, headers=headers, stream=True, timeout=60)
    with answer:
        lines = answer.iter_lines(chunk_size=1)
        assert next(lines) == b"event: text"
        asked = count_asked(url) - before
        events = [line for line in lines if line.startswith(b"event: ")]
    assert 1 <= asked < len(numbers)
    assert events[-1] == b"event: done"
