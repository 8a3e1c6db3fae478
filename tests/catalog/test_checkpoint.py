"""A model is named, downloaded from a fake hub, gone on with, checked and converted."""

from __future__ import annotations

import filecmp
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import catalog
from catalog import checkpoint
from contract.languages import LANGUAGES
from handlers.engine.directories import SETTINGS_FILE, SOURCE_FILE, ModelError
from handlers.engine.translation.families.m2m100 import CODES
from tests.catalog.fake_hub import COMMIT, FakeHub, Fault, ask_hub
from tests.random_m2m100 import build_tiny
from torchserve_backend.archiver import prepare_weights

pytestmark = pytest.mark.slow

NAME = "test/phrasebook"
PHRASEBOOK = catalog.ROOT / "models" / "phrasebook"
WEIGHTS = "model.safetensors"
#: `huggingface_hub` writes what has arrived in pieces of this size.
PIECE = 10 * 1024 * 1024
ALMOST_ALL = (PHRASEBOOK / WEIGHTS).stat().st_size - 1000
NOWHERE = "http://127.0.0.1:9"


@dataclass
class Machine:
    """It has a cache of its own, and the hub that it asks is the fake one."""

    hub: FakeHub
    home: Path
    #: The models to prepare. They need no conversion.
    models: catalog.Catalog

    @property
    def downloaded(self) -> Path:
        """The model's directory when all of it has arrived."""
        return self.home / "cache" / "hub" / NAME

    @property
    def weights_part(self) -> Path:
        """The weights' file while it is incomplete."""
        folder = self.downloaded.with_name(f"phrasebook-{COMMIT}.part")
        return folder / f"{WEIGHTS}.part"

    def prepare(self, hub: str = "") -> str:
        """Prepare the models, and return what is wrong."""
        with ask_hub(hub or self.hub.url):
            try:
                prepare_weights(self.models)
            except ModelError as error:
                return str(error)
        return ""


@pytest.fixture
def machine(tmp_path: Path, write_map: Callable[..., Path]) -> Iterator[Machine]:
    map_path = write_map({"ko": "cpu"}, engine="transformers")
    hub = FakeHub({NAME: PHRASEBOOK})
    with hub.serve():
        yield Machine(hub, tmp_path, catalog.load(map_path, model=NAME))


def is_whole(directory: Path) -> bool:
    """Whether a directory holds exactly those of the phrasebook's files that are of use."""
    useful = {p.name for p in PHRASEBOOK.iterdir()} - {"README.md", "training.json"}
    same, *_ = filecmp.cmpfiles(PHRASEBOOK, directory, useful, shallow=False)
    return set(same) == useful == {p.name for p in directory.iterdir()} - {SOURCE_FILE}


def test_a_hub_name_is_downloaded_and_converted_once_and_then_needs_no_hub(machine):
    calls = machine.hub.calls
    machine.models = catalog.load(gpus=None, model=NAME)
    assert not machine.prepare()
    assert is_whole(machine.downloaded)
    assert calls[0] == f"/api/models/{NAME}"
    assert len(calls) == len(set(calls)), "something was asked for twice"
    (converted,) = machine.home.glob("cache/ctranslate2/phrasebook-*/int8")
    assert (converted / "model.bin").stat().st_size > 1_000_000

    asked = len(calls)
    assert not machine.prepare(hub=NOWHERE)
    assert len(calls) == asked


def test_a_connection_that_breaks_is_taken_up_again(machine: Machine):
    machine.hub.faults[WEIGHTS] = [Fault(ends_at=ALMOST_ALL)]
    assert not machine.prepare()
    assert machine.hub.sent(WEIGHTS) == ["", f"bytes={PIECE}-"]
    assert is_whole(machine.downloaded)


def test_a_download_that_the_hub_gives_up_is_gone_on_with_by_the_next_command(machine):
    hub = machine.hub
    hub.faults[WEIGHTS] = [Fault(ends_at=ALMOST_ALL), Fault(status=503)]
    said = machine.prepare()
    assert f"{NAME}: {hub.url} answered 503. What has arrived is kept" in said
    assert machine.weights_part.stat().st_size == PIECE
    assert not machine.downloaded.exists()

    hub.calls.clear()
    assert not machine.prepare()
    assert hub.sent(WEIGHTS) == [f"bytes={PIECE}-"]
    assert not [call for call in hub.calls if call.endswith("/vocab.json")]
    assert is_whole(machine.downloaded)


def test_weights_that_arrive_damaged_are_thrown_away(machine: Machine):
    machine.hub.faults[WEIGHTS] = [Fault(is_damaged=True)]
    said = machine.prepare()
    assert f"{NAME}: {WEIGHTS} arrived damaged and is thrown away" in said
    assert not machine.prepare()
    assert machine.hub.sent(WEIGHTS) == ["", ""]
    assert is_whole(machine.downloaded)


def test_a_hub_that_cannot_be_reached_is_said_clearly(machine: Machine):
    said = machine.prepare(hub=NOWHERE)
    assert said == (
        f"{NAME}: {NOWHERE} cannot be reached ([Errno 111] Connection refused). "
        "Give a directory's path instead, or set HF_ENDPOINT to a mirror."
    )
    assert not machine.downloaded.exists()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((404, b""), "neither a directory nor a model that"),
        ((401, b"{}"), "needs HF_TOKEN"),
        ((500, b"oops"), "answered 500. Give a directory's path instead"),
        ((200, b"<html>Log in first</html>"), "is no hub"),
    ],
    ids=["unknown", "hidden", "broken", "not a hub"],
)
def test_a_hub_that_does_not_give_the_model_is_said_clearly(machine, answer, expected):
    machine.hub.instead = answer
    said = machine.prepare()
    assert said.startswith(f"{NAME}: ")
    assert expected in said


def test_a_model_of_another_kind_is_refused_before_its_weights_are_loaded(machine):
    other = machine.hub.repositories[NAME] = machine.home / "bert"
    other.mkdir()
    for file in ("config.json", "vocab.txt", WEIGHTS):
        (other / file).write_text("{}")
    said = machine.prepare()
    lacks = "it lacks sentencepiece.bpe.model, vocab.json"
    assert f"{NAME} on {machine.hub.url} is no model for translation: {lacks}" in said
    assert machine.hub.calls == [f"/api/models/{NAME}"]


def test_what_is_neither_a_directory_nor_a_hub_name_is_refused(tmp_path: Path):
    for name in ("models/nothing/here", "./nothing", "nothing", "..", "a/..", "a b/c"):
        with pytest.raises(ModelError, match="not a hub name either|is no model"):
            checkpoint.fetch(name, tmp_path)


def test_a_directory_is_taken_as_it_is_and_the_cache_is_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("BABELGATE_CACHE", "here")
    assert checkpoint.default_cache() == Path.cwd() / "here"
    assert checkpoint.fetch("models/phrasebook", tmp_path) == PHRASEBOOK
    assert checkpoint.fetch(str(PHRASEBOOK), tmp_path) == PHRASEBOOK
    assert not list(tmp_path.iterdir())


def test_a_models_languages_are_found_wherever_it_lies(
    monkeypatch, tmp_path, write_map
):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path))
    models = catalog.load(write_map(model=NAME))
    assert checkpoint.find_sources(models) == [*LANGUAGES]
    assert checkpoint.find_languages("facebook/m2m100_418M").targets == tuple(CODES)
    named = checkpoint.find_languages("Helsinki-NLP/opus-mt-tc-big-en-fr")
    assert named == (("en",), ("fr",))
    groups = checkpoint.find_languages("Helsinki-NLP/opus-mt-en-ROMANCE")
    assert groups.sources == tuple(LANGUAGES)
    downloaded = tmp_path / "hub" / NAME
    downloaded.mkdir(parents=True)
    (downloaded / SETTINGS_FILE).write_text('{"languages": ["en", "fr"]}')
    assert checkpoint.find_sources(models) == ["en", "fr"]
    here = catalog.load(write_map(model="models/phrasebook"))
    assert set(checkpoint.find_sources(here)) < set(CODES)


@pytest.mark.parametrize(
    ("files", "known"),
    [
        ({}, CODES),
        ({"tokenizer_config.json": '{"additional_special_tokens": []}'}, CODES),
        (
            {"special_tokens_map.json": '{"a": ["__de__", {"content": "__cs__"}]}'},
            ["cs", "de"],
        ),
        (
            {
                "tokenizer_config.json": '["__de__"]',
                SETTINGS_FILE: '{"languages": ["fr"]}',
            },
            ["fr"],
        ),
    ],
    ids=["nothing said", "no tokens", "tokens", "settings"],
)
def test_a_models_own_files_say_its_languages(tmp_path, files, known):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "config.json").write_text('{"model_type": "m2m_100"}')
    assert checkpoint.find_languages(tmp_path) == (tuple(known), tuple(known))


def test_a_language_that_the_model_lacks_is_not_prepared(tmp_path, write_map):
    path = write_map({"nl": "cpu"}, model="models/phrasebook")
    (model,) = catalog.load(path).models
    with pytest.raises(ModelError, match="does not know nl, expected some of en ko"):
        checkpoint.prepare(model, tmp_path)


def test_language_tokens_in_another_order_are_refused(tmp_path, write_map):
    (tmp_path / "config.json").write_text('{"model_type": "m2m_100"}')
    (tmp_path / "tokenizer_config.json").write_text('{"language_codes": "wmt21"}')
    (model,) = catalog.load(write_map({"de": "cpu"}, model=str(tmp_path))).models
    with pytest.raises(ModelError, match="is 'wmt21', expected 'm2m100'"):
        checkpoint.check_languages(model, tmp_path)


def test_with_a_vocabulary_each_language_has_a_directory_of_its_own(
    tmp_path, write_map
):
    tiny = str(build_tiny(tmp_path / "tiny", positions=8))

    def prepare(vocabulary: str) -> set[Path]:
        devices = {"fr": "cpu", "de": "cpu"}
        path = write_map(devices, vocabulary=vocabulary, model=tiny)
        models = catalog.load(path).models
        return {checkpoint.prepare(model, tmp_path) for model in models}

    whole, listed = prepare("all"), prepare("language")
    assert (len(whole), len(listed), len(whole | listed)) == (1, 2, 3)


def test_models_for_images_have_no_languages_to_check(tmp_path):
    models = catalog.load(catalog.MAP.with_name("all_tasks.json"), gpus=None).models
    found = [checkpoint.prepare(m, tmp_path) for m in models if not m.languages]
    assert {each.parent.name for each in found} == {"shapes"}
