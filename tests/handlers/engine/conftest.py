"""The model that ships, converted once for all tests of this folder, in both engines."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import copytree

import pytest

from handlers.engine.translation import conversion
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.engine import Engine, Sentence
from handlers.engine.translation.transformers import TransformersEngine
from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus, TextPair
from models.phrasebook_recipe.phrasebook import MODEL as PHRASEBOOK
from tests.tiny_models import build_m2m100

MakeEngine = Callable[[str], Engine]


@pytest.fixture(scope="session")
def make_engine(tmp_path_factory: pytest.TempPathFactory) -> MakeEngine:
    """A function that returns an engine by name: `reference`, or CTranslate2's precision."""
    folder = tmp_path_factory.mktemp("ctranslate2")

    @cache
    def make(name: str) -> Engine:
        if name == "reference":
            return TransformersEngine(PHRASEBOOK)
        converted = conversion.convert(PHRASEBOOK, folder, name)
        return CTranslate2Engine(converted, compute_type=name)

    return make


@pytest.fixture(params=["reference", "int8"])
def engine(request: pytest.FixtureRequest, make_engine: MakeEngine) -> Engine:
    return make_engine(request.param)


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return Corpus(phrasebook.load())


@pytest.fixture(scope="session")
def pairs(corpus: Corpus) -> list[TextPair]:
    """Held-out items of the phrasebook, in random directions."""
    return corpus.held_out(1000)


@pytest.fixture(scope="session")
def sentences(pairs: list[TextPair]) -> list[Sentence]:
    return [
        Sentence(p.source, p.source_language, p.target_language) for p in pairs[:40]
    ]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small untrained model with the phrasebook's vocabulary."""
    return build_m2m100(tmp_path_factory.mktemp("tiny") / "model", positions=256)


@pytest.fixture
def model(tmp_path: Path, tiny: Path) -> Path:
    """A copy of the small model's directory that a test may change."""
    return Path(copytree(tiny, tmp_path / "model"))
