"""Maps with several models, and with one that is unloaded, on a real stack."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import requests

from benchmarks.instruments.generator import Request, Target, ask_within
from catalog import ROOT
from deploy.stack import Stack
from tests.e2e.real_stack import (
    MODEL_WORKER,
    find_processes,
    is_ready,
    keep_asking,
    operate,
    start_stack,
    use_after_unloading,
    wait_until,
)

pytestmark = pytest.mark.faults

#: A model that reads English only.
PAIR = ROOT / "models/phrasebook-en-fr"
LIMIT_S = 90


def write_content(model: str) -> dict[str, Any]:
    """Return a map that uses this model for French."""
    own = {"model": model, "fallback": "models/phrasebook"}
    section = {"targets": {"fr": own}, "pivot": "en", "max_batch_delay": 2}
    devices = dict.fromkeys(("en", "fr", "de"), "cpu")
    return {"cuda_id": devices, "translation": section}


def ask(stack: Stack, source: str, text: str, target: str) -> requests.Response:
    row = {"src_lang": source, "src_text": text, "tgt_lang": target}
    return requests.post(stack.url, json=row, timeout=LIMIT_S)


def name_models(answer: requests.Response) -> list[str]:
    named = answer.headers.get("X-Babelgate-Model", "").split(", ")
    return [model.partition("@")[0] for model in named]


@pytest.mark.parametrize("backend", ["torchserve", "ray"])
def test_a_text_goes_through_the_pivot_on_a_real_stack(tmp_path, cache, backend):
    content = write_content(str(PAIR))
    options = ("--backend", backend)
    with start_stack(tmp_path / "run", cache, *options, content=content) as stack:
        wait_until(lambda: is_ready(stack.url))
        direct = ask(stack, "en", "Good morning", "fr")
        answer = ask(stack, "de", "Guten Morgen", "fr")
        assert answer.json() == direct.json() == {"translated": "Bonjour"}
        assert name_models(answer) == ["phrasebook", PAIR.name]
        other = {"src_lang": "sv", "src_text": "Hej", "tgt_lang": "fr"}
        assert requests.post(stack.url, json=other, timeout=LIMIT_S).status_code == 422
        if backend == "torchserve":
            check_reload(stack, tmp_path, cache)


def check_reload(stack: Stack, folder: Path, cache: Path) -> None:
    """Check that another model for French replaces one worker and loses no request."""
    before = {*find_processes(stack, MODEL_WORKER)}
    pairs = [("en", "de"), ("de", "fr")] * 1000
    rows = [
        {"src_lang": source, "src_text": f"Guten Morgen {number}", "tgt_lang": target}
        for number, (source, target) in enumerate(pairs)
    ]
    asked = [Request(json.dumps(row).encode(), "/translate") for row in rows]
    target = Target(stack.url, asked, headers={"Connection": "close"})
    with keep_asking(target, ask_within(LIMIT_S * 1000), clients=2) as replies:
        shutil.copytree(PAIR, folder / "new")
        content = write_content(str(folder / "new"))
        stack.map.write_text(json.dumps(content))
        operate(stack.run, cache, "up")
        wait_until(lambda: name_models(ask(stack, "en", "Thank you", "fr")) == ["new"])
    assert {one.status for one in replies} == {"200"}
    kept = before.intersection(find_processes(stack, MODEL_WORKER))
    assert len(kept) == len(before) - 1 == 2


def test_an_unused_model_is_unloaded_and_comes_back(tmp_path, cache):
    section = {"engine": "echo", "idle_unload_s": 2}
    content = {"cuda_id": {"fr": "cpu"}, "translation": section}
    with start_stack(tmp_path / "run", cache, content=content) as stack:
        use_after_unloading(stack.url)
        assert "RUNNING" in operate(stack.run, cache, "status")
