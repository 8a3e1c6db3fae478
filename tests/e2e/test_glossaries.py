"""Glossaries on the real stack: terms of all scripts are in every translation."""

from typing import Any

import pytest
import requests

from models.phrasebook_recipe.items import LANGUAGES
from tests.e2e.real_stack import kill
from tests.e2e.test_documents import FRAMES, find_frames
from tests.e2e.test_translation import ask

LIMIT_S = 120
#: The same four terms in each language.
TERMS = {
    "en": ["server", "charging station", "work order", "Acme Cloud"],
    "de": ["Server", "Ladestation", "Arbeitsauftrag", "Acme Cloud"],
    "fr": ["serveur", "borne d'alimentation", "ordre de travail", "Acme Cloud"],
    "es": ["servidor", "estación de carga", "orden de trabajo", "Acme Cloud"],
    "it": ["server", "stazione di ricarica", "ordine di lavoro", "Acme Cloud"],
    "pt": ["servidor", "estação de recarga", "ordem de serviço", "Acme Cloud"],
    "id": ["peladen", "stasiun pengisian", "perintah kerja", "Acme Cloud"],
    "vi": ["máy chủ", "trạm sạc", "lệnh công việc", "Acme Cloud"],
    "ru": ["сервер", "зарядная станция", "наряд-заказ", "Acme Cloud"],
    "ar": ["خادم", "محطة شحن", "أمر عمل", "Acme Cloud"],
    "hi": ["सर्वर", "चार्जिंग स्टेशन", "कार्य आदेश", "Acme Cloud"],
    "zh": ["服务器", "充电站", "工单", "Acme Cloud"],
    "ja": ["サーバー", "充電ステーション", "作業指示", "Acme Cloud"],
    "ko": ["서버", "충전소", "작업 지시서", "Acme Cloud"],
}
PLACES = find_frames("Where is {place}?") | {"vi": "{} ở đâu?"}
#: The distances of a source's targets in the list of languages.
STEPS = (3, 5, 8)


def list_pairs() -> list[tuple[str, str]]:
    return [
        (source, LANGUAGES[(i + step) % len(LANGUAGES)])
        for i, source in enumerate(FRAMES)
        for step in STEPS
        if source != LANGUAGES[(i + step) % len(LANGUAGES)]
    ]


def write_dictionary(source: str, target: str) -> dict[str, str]:
    rows = zip(TERMS[source], TERMS[target], strict=True)
    pair = {"source_lang": source, "target_lang": target}
    return {**pair, "entries": "\n".join(map("\t".join, rows)), "entries_format": "tsv"}


@pytest.fixture(scope="module")
def glossary(url: str) -> Any:
    """A glossary with a dictionary for each pair."""
    dictionaries = [write_dictionary(*pair) for pair in list_pairs()]
    body = {"name": "All pairs", "dictionaries": dictionaries}
    made = requests.post(f"{url}/v3/glossaries", json=body, timeout=LIMIT_S)
    assert made.status_code == 201, made.text
    glossary_id = made.json()["glossary_id"]
    yield glossary_id
    requests.delete(f"{url}/v3/glossaries/{glossary_id}", timeout=LIMIT_S)


def test_every_term_is_in_its_translation(url, glossary):
    missing, count = [], 0
    for source, target in list_pairs():
        texts = [
            frame.format(term)
            for frame in (FRAMES[source], PLACES[source])
            for term in TERMS[source]
        ]
        given = {"src_lang": source, "glossary": glossary}
        answers = ask(url, texts, target, **given)["translated"]
        for text, answer, term in zip(texts, answers, 2 * TERMS[target], strict=True):
            count += 1
            if answer.count(term) != 1 or answer == term:
                missing.append((source, target, text, answer))
    assert count >= 300
    assert missing == []


def test_every_process_sees_a_glossary_at_once_and_after_a_kill(stack, url):
    entries = {"charging station": "Ladestation"}
    body = {"name": "Kept", "src_lang": "en", "tgt_lang": "de", "entries": entries}
    made = requests.post(f"{url}/glossaries", json=body, timeout=LIMIT_S).json()
    wanted = ("Where is charging station?", "de")
    given = {"src_lang": "en", "glossary": made["id"]}
    for _ in range(20):  # each on a new connection
        assert ask(url, *wanted, **given)["translated"] == "Wo ist Ladestation?"
    kill(stack, "gateway master")
    assert requests.get(f"{url}/glossaries/Kept", timeout=LIMIT_S).json() == made
    assert ask(url, *wanted, **given)["translated"] == "Wo ist Ladestation?"
    path = f"{url}/glossaries/{made['id']}"
    assert requests.delete(path, timeout=LIMIT_S).status_code == 204
    for _ in range(20):
        assert requests.get(path, timeout=LIMIT_S).status_code == 404


def test_a_glossary_of_ten_megabytes_passes_nginx(url):
    """It is escaped in JSON, and a larger one is refused."""
    terms = "\n".join(f"слово {number}\tWort{number}" for number in range(300_000))
    body = {"source_lang": "ru", "target_lang": "de", "entries_format": "tsv"}
    large = body | {"name": "Large", "entries": terms}
    answer = requests.post(f"{url}/v2/glossaries", json=large, timeout=LIMIT_S)
    assert answer.json()["entry_count"] == 300_000, answer.text
    glossary_id = answer.json()["glossary_id"]
    given = {"src_lang": "ru", "glossary": glossary_id}
    found = ask(url, "Где слово 299999?", "de", **given)["translated"]
    assert found == "Wo ist Wort299999?"
    more = body | {"name": "Larger", "entries": terms.replace("слово", "слово слово")}
    refused = requests.post(f"{url}/v2/glossaries", json=more, timeout=LIMIT_S)
    assert refused.status_code == 413
    path = f"{url}/v2/glossaries/{glossary_id}"
    assert requests.delete(path, timeout=LIMIT_S).status_code == 204
