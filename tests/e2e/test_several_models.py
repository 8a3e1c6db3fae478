"""Maps with several models, and with one that is unloaded, on a real stack."""

import json
import shutil
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests

from catalog import ROOT
from deploy.stack import Stack
from tests.e2e.real_stack import (
    is_ready,
    operate,
    processes,
    start_stack,
    use_after_unloading,
    wait_until,
    write_command,
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


def find_workers(stack: Stack) -> set[int]:
    """Return the process ids of TorchServe's workers."""
    commands = {each.pid: write_command(each) for each in processes(stack)}
    return {pid for pid, said in commands.items() if "model_service_worker" in said}


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
    before, is_over = find_workers(stack), threading.Event()
    refused: list[str] = []

    def watch() -> None:
        for number in count():
            answers = (
                ask(stack, "en", "Good morning", "de"),
                ask(stack, "de", f"Guten Morgen {number}", "fr"),
            )
            refused.extend(each.text for each in answers if each.status_code != 200)
            if is_over.is_set():
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        shutil.copytree(PAIR, folder / "new")
        content = write_content(str(folder / "new"))
        stack.map.write_text(json.dumps(content))
        operate(stack.run, cache, "up")
        wait_until(lambda: name_models(ask(stack, "en", "Thank you", "fr")) == ["new"])
    finally:
        is_over.set()
        watching.join(LIMIT_S)
    assert not refused
    assert len(before & find_workers(stack)) == len(before) - 1 == 2


def test_an_unused_model_is_unloaded_and_comes_back(tmp_path, cache):
    section = {"engine": "echo", "idle_unload_s": 2}
    content = {"cuda_id": {"fr": "cpu"}, "translation": section}
    with start_stack(tmp_path / "run", cache, content=content) as stack:
        use_after_unloading(stack.url)
        assert "RUNNING" in operate(stack.run, cache, "status")
