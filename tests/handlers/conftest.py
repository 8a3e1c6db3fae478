"""A translation handler around a fake engine, and tiny vision models with random weights."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.tasks import TRANSLATION
from handlers import translation
from handlers.engine.directories import SETTINGS_FILE
from handlers.translation import TranslationHandler
from tests import random_vision
from tests.handlers.fakes import FakeEngine, make_context, make_options

Start = Callable[..., TranslationHandler]
FindModel = Callable[[str], Path]

BUILDERS: dict[str, Callable[[Path], Path]] = {
    "blip2": random_vision.build_blip2,
    "blip2-t5": partial(random_vision.build_blip2, language_model="t5"),
    "resnet": random_vision.build_resnet,
    # It resizes every image to one size.
    "rt-detr": random_vision.build_rt_detr,
    # It keeps the aspect ratio of images.
    "detr": random_vision.build_detr,
}


@pytest.fixture(autouse=True)
def _counting_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handlers.base.COUNT_S", 0)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: FakeEngine) -> Start:
    """A function that starts a handler with these options, for a model with these settings."""

    def start(
        *,
        device: str = "cpu",
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> TranslationHandler:
        settings = {"family": "m2m100", **settings}
        (tmp_path / SETTINGS_FILE).write_text(json.dumps(settings))
        monkeypatch.setattr(translation, "load_engine", lambda *_, **__: engine)
        given = {"languages": ["ko", "no"], "devices": [device], **(options or {})}
        config = make_options(TRANSLATION, tmp_path, **given)
        handler = TranslationHandler()
        handler.initialize(make_context(config={"handler": config}))
        return handler

    return start


@pytest.fixture
def handler(start: Start, engine: FakeEngine) -> TranslationHandler:
    """A handler for Korean and Norwegian that warns about scores below -1."""
    handler = start(min_score=-1.0, warning="This is a demonstration.")
    engine.batches.clear()
    engine.decodings.clear()
    return handler


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: a second cannot speed up tiny models, and xdist workers have one core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def find_model(tmp_path_factory: pytest.TempPathFactory) -> FindModel:
    """A function that returns the directory of one of `BUILDERS`, which is built once."""
    return cache(lambda name: BUILDERS[name](tmp_path_factory.mktemp(name)))
