"""A model is found by its name, checked and converted; `test_inventory.py` covers downloads."""

from pathlib import Path

import pytest

import catalog
from catalog import checkpoint
from contract.languages import LANGUAGES
from handlers.engine.directories import SETTINGS_FILE, ModelError
from handlers.engine.translation.families.m2m100 import CODES
from tests.tiny_models import build_m2m100

pytestmark = pytest.mark.slow

NAME = "test/phrasebook"
TOKENS = "tokenizer_config.json"
PHRASEBOOK = catalog.ROOT / "models" / "phrasebook"


def test_what_is_neither_a_directory_nor_a_hub_name_is_refused(tmp_path: Path):
    missing = ("models/nothing/here", "./nothing", "nothing", "~nobody.here/m")
    for name in (*missing, "..", "a/..", "a b/c"):
        with pytest.raises(ModelError, match="nor a hub name|is not a model"):
            checkpoint.fetch(name, tmp_path)
    file = tmp_path / "model.bin"
    file.touch()
    with pytest.raises(ModelError, match="is not a directory"):
        checkpoint.fetch(str(file), tmp_path)
    with pytest.raises(ModelError, match="model_type is None"):
        checkpoint.find_languages(file)


def test_a_directory_is_taken_as_it_is_and_the_cache_is_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("BABELGATE_CACHE", "here")
    monkeypatch.chdir("/")
    assert checkpoint.default_cache() == catalog.ROOT / "here"
    assert checkpoint.fetch("models/phrasebook", tmp_path) == PHRASEBOOK
    assert checkpoint.fetch(str(PHRASEBOOK), tmp_path) == PHRASEBOOK
    assert not list(tmp_path.iterdir())


def test_the_cache_is_in_the_users_and_without_a_user_where_it_is_set(monkeypatch):
    monkeypatch.delenv("BABELGATE_CACHE", raising=False)
    for set_to, found in {"": Path.home() / ".cache", "/x": Path("/x")}.items():
        monkeypatch.setenv("XDG_CACHE_HOME", set_to)
        assert checkpoint.default_cache() == found / "babelgate"
    monkeypatch.setenv("BABELGATE_CACHE", "/cache")
    monkeypatch.setattr(Path, "home", lambda: pytest.fail("there may be none"))
    assert checkpoint.default_cache() == Path("/cache")


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
        ({TOKENS: '{"additional_special_tokens": []}'}, CODES),
        (
            {"special_tokens_map.json": '{"a": ["__de__", {"content": "__cs__"}]}'},
            ["cs", "de"],
        ),
        ({TOKENS: '["__de__"]', SETTINGS_FILE: '{"languages": ["fr"]}'}, ["fr"]),
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


def test_language_tokens_in_another_order_are_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "m2m_100"}')
    (tmp_path / TOKENS).write_text('{"language_codes": "wmt21"}')
    with pytest.raises(ModelError, match="is 'wmt21', expected 'm2m100'"):
        checkpoint.find_languages(tmp_path)


def test_with_a_vocabulary_each_language_has_a_directory_of_its_own(
    tmp_path, write_map
):
    tiny = str(build_m2m100(tmp_path / "tiny", positions=8))

    def prepare(vocabulary: str) -> set[Path]:
        devices = {"fr": "cpu", "de": "cpu"}
        path = write_map(devices, vocabulary=vocabulary, model=tiny)
        models = catalog.load(path).models
        return {checkpoint.prepare(model, tmp_path) for model in models}

    whole, listed = prepare("all"), prepare("language")
    assert (len(whole), len(listed), len(whole | listed)) == (1, 2, 3)
