"""Our modules that answer one request to translate, in the gateway and in a worker."""

import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from handlers.base import ModelConfig
from handlers.engine.translation import conversion
from handlers.translation import TranslationHandler
from models.phrasebook_recipe.phrasebook import MODEL as PHRASEBOOK
from tests.gateway.conftest import serve_fake
from tests.handlers.fakes import ask, make_options

ROOT = Path(__file__).parents[1]
MOST = 38
WANTED = {"src_lang": "en", "src_text": "Where is the station?", "tgt_lang": "ko"}
#: The modules of Gunicorn's worker, which does not run in this process.
OUTSIDE = {"gateway/http/message.py", "gateway/http/worker.py"}


def trace(prepare: Callable[[], Callable[[], object]]) -> set[str]:
    """Return our modules that run in the prepared work, and in threads of the preparation."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    threading.setprofile(note)
    try:
        work = prepare()
        found.clear()
        sys.setprofile(note)
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    inside = [Path(name) for name in found if name.startswith(f"{ROOT}/")]
    names = {path.relative_to(ROOT).as_posix() for path in inside}
    return {name for name in names if not name.startswith(("tests/", ".venv/"))}


@pytest.mark.slow
def test_a_request_to_translate_passes_few_modules(tmp_path: Path):
    """Fail with the list of modules if the path grows: merge two, or take one off the path."""
    answers: list[Any] = []
    with serve_fake(tmp_path) as make:
        client = make()
        client.post("/", json=WANTED)  # work that is done once
        ask_gateway = partial(client.post, "/", json=WANTED)
        gateway = trace(lambda: lambda: answers.append(ask_gateway()))
    (answer,) = answers
    assert answer.json == {"translated": f"ko:{WANTED['src_text']}"}
    worker = trace(lambda: start_worker(tmp_path / "model"))
    modules = sorted(gateway | worker | OUTSIDE)
    assert "handlers/engine/translation/ctranslate2.py" in worker
    assert len(modules) <= MOST, "\n".join(["", *modules])


def start_worker(folder: Path) -> Callable[[], object]:
    """Start a handler with the model that ships, and return a function that sends it a row."""
    options = make_options("translation", PHRASEBOOK, languages=["ko"])
    handler = TranslationHandler()
    model = conversion.convert(PHRASEBOOK, folder, "int8", languages=["ko"])
    handler.start(ModelConfig(model, None, options))
    row = json.dumps(WANTED | {"beam_size": 2, "alternatives": 0}).encode()
    return lambda: ask(handler, [row])
