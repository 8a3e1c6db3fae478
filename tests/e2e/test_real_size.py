"""M2M100-418M's exact size with random weights behind the whole stack: it translates
nonsense, but it loads, batches, answers, and refuses what its queue does not hold.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from deploy.stack import Stack
from tests.e2e.real_stack import start_stack
from tests.random_m2m100 import build

BODY = {"src_lang": "en", "src_text": "Where is the station?", "tgt_lang": "de"}
SETTINGS = {"batch_size": 4, "max_batch_delay": 50, "queue_size": 4}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Stack]:
    """One language, a short queue."""
    folder = tmp_path_factory.mktemp("large")
    model = build(folder / "m2m100_418M")
    map_path = folder / "map.json"
    map_path.write_text(json.dumps({"cuda_id": {"de": "cpu"}, "translation": SETTINGS}))
    arguments = ("--map", str(map_path), "--model", str(model))
    yield from start_stack(folder / "run", cache, *arguments)


def ask(url: str) -> requests.Response:
    return requests.post(url, json=BODY, timeout=60)


def test_a_model_of_real_size_answers(large: Stack):
    response = ask(large.url)
    assert response.status_code == 200, response.text
    assert isinstance(response.json()["translated"], str)


def test_a_full_queue_is_refused_at_once_and_the_rest_is_answered(large: Stack):
    with ThreadPoolExecutor(60) as clients:
        responses = list(clients.map(ask, [large.url] * 60))
    statuses = Counter(response.status_code for response in responses)
    assert set(statuses) == {200, 429}, statuses
    refused = next(r for r in responses if r.status_code == 429)
    assert refused.headers["Retry-After"] == "1"
    assert refused.json()["type"] == "urn:babelgate:queue-full"


def test_what_has_no_time_is_refused_or_late(large: Stack):
    headers = {"X-Timeout-Ms": "20"}
    response = requests.post(large.url, json=BODY, headers=headers, timeout=60)
    slug = response.json()["type"].removeprefix("urn:babelgate:")
    assert (response.status_code, slug) in {(429, "queue-full"), (504, "deadline")}
