"""Glossaries on the real stack: terms of all scripts are in every translation."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from models.phrasebook_recipe.items import LANGUAGES
from tests.chaos.scene import VICTIMS
from tests.e2e.clients import ask
from tests.e2e.real_stack import delete_glossaries, is_ready, wait_until
from tests.e2e.test_dialects import assert_has
from tests.e2e.test_documents import FRAMES
from tests.e2e.test_recovery import is_replaced

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
PLACES = {
    "en": "Where is {}?",
    "de": "Wo ist {}?",
    "fr": "Où est {} ?",
    "es": "¿Dónde está {}?",
    "it": "Dov'è {}?",
    "pt": "Onde fica {}?",
    "id": "Di mana {}?",
    "vi": "{} ở đâu?",
    "ru": "Где {}?",
    "ar": "أين {}؟",
    "hi": "{} कहाँ है?",
    "zh": "{}在哪里？",
    "ja": "{}はどこですか？",
    "ko": "{} 어디에 있어요?",
}
#: How far on in the list of languages each target is.
STEPS = (3, 5, 8)


def list_pairs() -> list[tuple[str, str]]:
    return [
        (source, LANGUAGES[(i + step) % len(LANGUAGES)])
        for i, source in enumerate(FRAMES)
        for step in STEPS
        if source != LANGUAGES[(i + step) % len(LANGUAGES)]
    ]


@pytest.fixture(scope="module")
def glossary(url: str) -> Any:
    """A dictionary for each pair."""
    dictionaries = [
        {
            "source_lang": source,
            "target_lang": target,
            "entries": "\n".join(
                f"{term}\t{translation}"
                for term, translation in zip(TERMS[source], TERMS[target], strict=True)
            ),
            "entries_format": "tsv",
        }
        for source, target in list_pairs()
    ]
    body = {"name": "All pairs", "dictionaries": dictionaries}
    made = requests.post(f"{url}/v3/glossaries", json=body, timeout=LIMIT_S)
    assert made.status_code == 201, made.text
    glossary_id = made.json()["glossary_id"]
    yield glossary_id
    requests.delete(f"{url}/v3/glossaries/{glossary_id}", timeout=LIMIT_S)


def translate(url: str, **body: Any) -> Any:
    response = requests.post(f"{url}/translate", json=body, timeout=LIMIT_S)
    assert response.status_code == 200, response.text
    return response.json()["translated"]


def test_every_term_is_in_its_translation(url, glossary):
    missing, count = [], 0
    for source, target in list_pairs():
        texts = [
            frame.format(term)
            for frame in (FRAMES[source], PLACES[source])
            for term in TERMS[source]
        ]
        answers = translate(
            url, src_lang=source, src_text=texts, tgt_lang=target, glossary=glossary
        )
        for text, answer, term in zip(texts, answers, 2 * TERMS[target], strict=True):
            count += 1
            if answer.count(term) != 1 or answer == term:
                missing.append((source, target, text, answer))
    assert count >= 300
    assert missing == []


#: Client, step, and what the answer is or has.
ANSWERS: list[tuple[str, str, Any]] = [
    ("deepl 2", "made", ["By two", True, "EN", 1]),
    ("deepl 2", "csv", {"a": "b, c"}),
    ("deepl 2", "listed", ["By two", "From CSV"]),
    ("deepl 2", "found", "By two"),
    ("deepl 2", "entries", {"charging station": "Ladestation"}),
    ("deepl 2", "text", "Wo ist Ladestation?"),
    ("deepl 2", "both", "Wo ist Ladestation?"),
    ("deepl 2", "by itself", "Wo ist Ladestation?"),
    (
        "deepl 2",
        "double",
        "DeepLException: Bad request, message: Invalid glossary entr",
    ),
    ("deepl 2", "gone", "GlossaryNotFoundException: Glossary not found"),
    ("deepl 2", "unused", "DeepLException: Not found, message: Glossary not found"),
    ("deepl 3", "made", [["EN", "DE", 1], ["EN", "FR", 1]]),
    ("deepl 3", "text", "Wo ist Ladestation?"),
    ("deepl 3", "renamed", "Other"),
    ("deepl 3", "entries", ["charging station\tLadestation\nwork order\tAuftrag"]),
    ("deepl 3", "replaced", 1),
    ("deepl 3", "left", ["DE"]),
    ("deepl 3", "listed", ["Other"]),
    ("deepl 3", "other pair", "DeepLException: Bad request, message: The glossary has"),
    ("deepl command line", "made", 'Created Glossary "By hand"'),
    ("deepl command line", "entries", ["charging station\tLadestation"]),
    ("deepl command line", "text", ["Wo ist Ladestation?"]),
    ("deepl command line", "is listed", True),
    ("deepl command line", "deleted", "Glossary with ID it successfully deleted."),
    ("deepl-node 2", "made", ["By two", True, "en", 1]),
    ("deepl-node 2", "listed", ["By two"]),
    ("deepl-node 2", "found", "By two"),
    ("deepl-node 2", "entries", {"charging station": "Ladestation"}),
    ("deepl-node 2", "text", "Wo ist Ladestation?"),
    ("deepl-node 2", "both", "Wo ist Ladestation?"),
    ("deepl-node 2", "gone", "GlossaryNotFoundError: Glossary not found"),
    ("deepl-node 3", "made", ["de", "fr"]),
    ("deepl-node 3", "text", "Wo ist Ladestation?"),
    ("deepl-node 3", "renamed", "Other"),
    (
        *("deepl-node 3", "entries"),
        {"charging station": "Ladesäule", "work order": "Auftrag"},
    ),
    ("deepl-node 3", "replaced", 1),
    ("deepl-node 3", "left", ["de"]),
    ("deepl-node 3", "listed", ["Other"]),
    ("deepl-node 3", "gone", "GlossaryNotFoundError: Glossary not found"),
]


@pytest.fixture(scope="module")
def answers(url: str) -> dict[str, Any]:
    """By client and step. No other glossary is there."""
    delete_glossaries(url)
    return ask("ask_glossaries", url)


@pytest.mark.parametrize(
    ("client", "step", "expected"),
    ANSWERS,
    ids=[f"{client}: {step}" for client, step, _ in ANSWERS],
)
def test_an_unmodified_client_has_glossaries(answers, client, step, expected):
    assert_has(answers[client][step], expected)


def test_every_answer_is_looked_at(answers):
    found = {(client, step) for client, steps in answers.items() for step in steps}
    assert found == {(client, step) for client, step, _ in ANSWERS}


def test_every_process_sees_a_glossary_at_once_and_after_a_kill(stack, url):
    body = {
        "name": "Kept",
        "src_lang": "en",
        "tgt_lang": "de",
        "entries": {"charging station": "Ladestation"},
    }
    made = requests.post(f"{url}/glossaries", json=body, timeout=LIMIT_S).json()
    asked = {"src_lang": "en", "src_text": "Where is charging station?"}
    wanted = asked | {"tgt_lang": "de", "glossary": made["id"]}
    for _ in range(20):  # each on a connection of its own
        assert translate(url, **wanted) == "Wo ist Ladestation?"
    master = VICTIMS["gateway master"](stack)
    master.kill()
    master.wait(10)
    wait_until(lambda: is_replaced(stack, "gateway master", master))
    wait_until(lambda: is_ready(url))
    assert requests.get(f"{url}/glossaries/Kept", timeout=LIMIT_S).json() == made
    assert translate(url, **wanted) == "Wo ist Ladestation?"
    path = f"{url}/glossaries/{made['id']}"
    assert requests.delete(path, timeout=LIMIT_S).status_code == 204
    for _ in range(20):
        assert requests.get(path, timeout=LIMIT_S).status_code == 404


def test_a_glossary_of_ten_megabytes_passes_nginx(url):
    """Escaped in JSON, and more than that is refused."""
    terms = "\n".join(f"слово {number}\tWort{number}" for number in range(300_000))
    body = {"source_lang": "ru", "target_lang": "de", "entries_format": "tsv"}
    answer = requests.post(
        f"{url}/v2/glossaries",
        json=body | {"name": "Large", "entries": terms},
        timeout=LIMIT_S,
    )
    assert answer.json()["entry_count"] == 300_000, answer.text
    glossary_id = answer.json()["glossary_id"]
    text = {"src_lang": "ru", "src_text": "Где слово 299999?", "tgt_lang": "de"}
    assert translate(url, **text, glossary=glossary_id) == "Wo ist Wort299999?"
    more = body | {"name": "Larger", "entries": terms.replace("слово", "слово слово")}
    refused = requests.post(f"{url}/v2/glossaries", json=more, timeout=LIMIT_S)
    assert refused.status_code == 413
    path = f"{url}/v2/glossaries/{glossary_id}"
    assert requests.delete(path, timeout=LIMIT_S).status_code == 204
