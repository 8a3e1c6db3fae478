"""M2M100-418M's exact size with random weights, alone and behind the whole stack."""

import math
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from transformers import M2M100Config

from benchmarks.instruments.random_model import build
from deploy.stack import Stack
from handlers.engine.translation.conversion import convert
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.engine import Sentence, longest_answer
from tests.e2e.real_stack import start_stack

BODY = {"src_lang": "en", "src_text": "Where is the station?", "tgt_lang": "de"}
SETTINGS = {"batch_size": 4, "max_batch_delay": 50, "queue_size": 4}
TEXTS = "Hello|Good morning|Thank you|Where is it?|Yes|No|Please|See you tomorrow"
TARGETS = "de fr ko ja zh hi ar pt".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("large")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return build(folder / "m2m100_418M", M2M100Config())


@pytest.fixture(scope="module")
def large(folder, model, tmp_path_factory) -> Iterator[Stack]:
    content = {"cuda_id": {"de": "cpu"}, "translation": SETTINGS}
    run, options = tmp_path_factory.mktemp("run"), ("--model", str(model))
    with start_stack(run, folder, *options, content=content) as started:
        yield started


def test_it_is_converted_to_int8_and_answers_a_batch(folder: Path, model: Path):
    # In the cache, where the stack finds it.
    converted = convert(model, folder / "ctranslate2", "int8")
    assert (converted / "model.bin").stat().st_size < 500_000_000
    engine = CTranslate2Engine(converted)
    texts = TEXTS.split("|")
    rows = [Sentence(t, "en", target) for t, target in zip(texts, TARGETS, strict=True)]
    answers = engine.translate(rows)
    assert len(answers) == len(texts)
    most = max(len(engine.tokenizer.encode(text, "en")) for text in texts)
    for answer in answers:
        # The language token is the first of the answer's tokens.
        tokens = answer.text.count("▁")
        assert 1 <= tokens <= longest_answer(most, engine.max_tokens)
        assert math.isfinite(answer.score)


def ask(url: str, number: int) -> requests.Response:
    # Equal sentences are translated once.
    wanted = BODY | {"src_text": f"Where is station {number}?"}
    return requests.post(url, json=wanted, timeout=60)


def test_a_full_queue_is_refused_at_once_and_the_rest_is_answered(large: Stack):
    with ThreadPoolExecutor(60) as clients:
        responses = list(clients.map(ask, [large.url] * 60, range(60)))
    statuses = Counter(response.status_code for response in responses)
    assert {200, 429} <= set(statuses) <= {200, 429, 504}, statuses
    refused = next(r for r in responses if r.status_code == 429)
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.json()["type"] == "urn:babelgate:queue-full"
