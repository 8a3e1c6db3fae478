"""Every family on every engine, with tiny checkpoints that have the same files as the hub's."""

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
import transformers
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

from contract.languages import LANGUAGES
from handlers.engine.directories import (
    SETTINGS_FILE,
    ModelError,
    check_directory,
    missing_files,
)
from handlers.engine.translation.conversion import convert
from handlers.engine.translation.engine import Decoding, Engine, Sentence
from handlers.engine.translation.families import find_family, list_languages
from handlers.engine.translation.loading import load_engine
from handlers.engine.translation.tokenizer import list_trigrams, read_list
from handlers.translation import TranslationHandler
from tests import tiny_models
from tests.handlers.fakes import ask, make_context, make_options

pytestmark = pytest.mark.slow

ENGINES = ("transformers", "ctranslate2")
BUILDERS: dict[str, Callable[[Path], Path]] = {
    **tiny_models.BUILDERS,
    "marian-many": partial(
        tiny_models.build_marian, target="ROMANCE", codes=["fra", "deu", "cmn_Hant"]
    ),
}
DECODINGS = [Decoding(beam_size=1), Decoding(beam_size=4, alternatives=3)]
TARGETS = {"marian": ["fr"], "marian-many": ["fr", "zh-Hant"]}
TEXTS = ("Good morning", "Where is {0}, please?", "I have two children and a dog.")
Find = Callable[[str], Path]
Load = Callable[[str, str], Engine]


@pytest.fixture(scope="session")
def find(tmp_path_factory: pytest.TempPathFactory) -> Find:
    """A function that returns a family's checkpoint, which is built once."""

    @cache
    def build(name: str) -> Path:
        torch.manual_seed(0)
        return BUILDERS[name](tmp_path_factory.mktemp("families") / name)

    return build


@pytest.fixture(scope="session")
def prepare(find: Find, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that returns the directory that an engine loads for a family."""
    folder = tmp_path_factory.mktemp("converted")

    def prepare(name: str, engine: str, languages: Sequence[str] = ()) -> Path:
        if engine == "transformers":
            return find(name)
        return convert(find(name), folder, "float32", languages=languages)

    return prepare


@pytest.fixture(scope="session")
def load(prepare: Any) -> Load:
    """A function that loads a family's engine once."""

    @cache
    def load(name: str, engine: str) -> Engine:
        directory = prepare(name, engine)
        return load_engine(engine, directory, compute_type="float32")

    return load


@pytest.fixture
def directory(find: Find, tmp_path: Path) -> Callable[[str], Path]:
    """A function that returns a copy of a checkpoint, which a test may change."""
    return lambda name: Path(copytree(find(name), tmp_path / name))


def rows(name: str) -> list[Sentence]:
    """Sentences from and into several languages."""
    targets = TARGETS.get(name, ["fr", "zh"])
    sources = ["en"] if name.startswith("marian") else ["en", "de"]
    return [
        Sentence(text, sources[i % len(sources)], target)
        for i, text in enumerate(TEXTS)
        for target in targets
    ]


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("decoding", DECODINGS, ids=str)
def test_both_engines_give_the_same_answers(name, decoding, load):
    given = [replace(row, decoding=decoding) for row in rows(name)]
    reference, answers = (load(name, engine).translate(given) for engine in ENGINES)
    assert [a.text for a in answers] == [a.text for a in reference]
    for a, b in zip(answers, reference, strict=True):
        assert a.text
        assert a.score == pytest.approx(b.score, abs=1e-3)
        assert len(a.alternatives) == len(b.alternatives) == decoding.alternatives


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_is_translated_as_it_is_alone(name, engine, load):
    # One text for all: these models never end an answer, so a batch's longest row limits all.
    text = TEXTS[0]
    given = [replace(row, text=text) for row in rows(name)[:4]]
    together = load(name, engine).translate(given)
    alone = [load(name, engine).translate([row])[0] for row in given]
    assert [a.text for a in together] == [a.text for a in alone]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")
@pytest.mark.parametrize("name", BUILDERS)
def test_tokens_are_those_of_the_stock_tokenizer(name, find, load):
    ours = load(name, "transformers").tokenizer
    stock = transformers.AutoTokenizer.from_pretrained(find(name))
    for row in rows(name):
        first = ours.list_first(row)
        stock.src_lang = first[0] if name == "nllb" else row.source
        marks = "".join(first) if name in ("marian-many", "madlad") else ""
        expected = stock(f"{marks.strip('▁')} {row.text}".strip())["input_ids"]
        (found,) = ours.tokenize([row])
        unknown = ours.ids["<unk>"]
        assert [ours.ids.get(token, unknown) for token in found.tokens] == expected
        assert ours.decode([found.tokens[len(first) :]]) == [row.text]


@pytest.mark.parametrize("name", BUILDERS)
def test_no_text_passes_for_a_control_token(name, load):
    tokenizer = load(name, "transformers").tokenizer
    (row, *_) = rows(name)
    for text in ("</s>", "<pad>", "<2de>", ">>deu<<", "deu_Latn", "__de__"):
        first, found = tokenizer.list_first(row), tokenizer.tokenize([row])
        (found,) = tokenizer.tokenize([replace(row, text=text)])
        assert not set(found.tokens[len(first) : -1]) & tokenizer.control - {"<unk>"}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_can_be_forbidden(name, engine, load):
    (row, *_) = rows(name)
    loaded = load(name, engine)
    (usual,) = loaded.translate([row])
    forbidden = list_trigrams(loaded.tokenizer.split_answer(usual.text))
    decoding = Decoding().careful(forbidden)
    (again,) = loaded.translate([replace(row, decoding=decoding)])
    assert not forbidden & list_trigrams(loaded.tokenizer.split_answer(again.text))


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_handler_serves_every_family(name, engine, prepare):
    targets = TARGETS.get(name, ["fr", "zh"])
    model = prepare(name, engine)
    given = {"engine": engine, "compute_type": "float32", "languages": targets}
    handler = TranslationHandler()
    config = make_options("translation", model, devices=["cpu"], **given)
    handler.initialize(make_context(config={"handler": config}))

    def write(text: str, source: str = "en", target: str = targets[-1]) -> bytes:
        row = {"src_text": text, "src_lang": source, "tgt_lang": target}
        return json.dumps(row | {"alternatives": 1}).encode()

    texts = write(TEXTS[1]), write("a " * 99)
    languages = write("1", "tlh"), write("1", "en", "sw")
    good, long, unknown, other = ask(handler, [*texts, *languages])
    assert good.status == 200
    assert 0 <= good.content["quality"] <= 1
    assert good.content["alternatives"]
    assert good.content["warnings"], "the guard does not see a random model's nonsense"
    assert (long.status, long.content["type"]) == (422, "urn:babelgate:text-too-long")
    assert long.content["tokens"] > long.content["limit"] == tiny_models.POSITIONS
    assert unknown.content["type"] == "urn:babelgate:unknown-language"
    assert other.status == 422


@pytest.mark.parametrize("name", BUILDERS)
def test_a_vocabulary_keeps_translations_to_its_pieces(name, prepare, monkeypatch):
    languages = ["fr"]
    model = prepare(name, "ctranslate2", languages)
    engine = load_engine("ctranslate2", model, compute_type="float32")
    allowed = read_list(model)
    assert allowed
    assert len(allowed) < len(engine.tokenizer.ids)
    found: set[str] = set()

    def decode(answers: Sequence[Sequence[str]]) -> list[str]:
        found.update(*answers)
        return [""] * len(answers)

    monkeypatch.setattr(engine.tokenizer, "decode", decode)
    engine.translate([row for row in rows(name) if row.target == "fr"])
    assert found
    assert found <= allowed


@pytest.mark.parametrize(
    ("name", "sources", "targets"),
    [
        ("nllb", ["de", "en", "fr", "ru", "zh", "zh-Hant"], None),
        ("marian", ["en"], ["fr"]),
        ("marian-many", ["en"], ["fr", "de", "zh-Hant"]),
        ("madlad", ["en", "fr", "de", "ru", "zh", "zh-Hant"], None),
    ],
)
def test_languages_are_those_of_the_files(name, sources, targets, find, prepare):
    expected = (tuple(sources), tuple(targets or sources))
    assert list_languages(find(name)) == expected
    assert list_languages(prepare(name, "ctranslate2")) == expected


def test_all_languages_of_nllb_have_their_own_tags(find, directory):
    model = directory("nllb")
    tokens = [{"content": code} for code in FAIRSEQ_LANGUAGE_CODES]
    (model / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}))
    languages = list_languages(model)
    assert len(set(languages.targets)) == 202
    assert set(languages.sources) <= set(LANGUAGES)


@pytest.mark.parametrize(
    ("name", "langs", "expected"),
    [
        ("opus-mt-de-en", {}, (["de"], ["en"])),
        ("opus-mt-tc-big-en-ces_slk", {}, (["en"], ["cs", "sk"])),
        ("model", {"source_lang": "fra", "target_lang": "eng"}, (["fr"], ["en"])),
        ("opus-mt-mul-en", {}, ([*LANGUAGES], ["en"])),
    ],
)
def test_a_pair_is_named_by_its_tokenizer_or_directory(tmp_path, name, langs, expected):
    model = tmp_path / name
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "marian"}')
    (model / "vocab.json").write_text("{}")
    (model / "tokenizer_config.json").write_text(json.dumps(langs))
    assert list_languages(model) == tuple(map(tuple, expected))


def test_a_group_of_languages_is_listed_by_its_owner(directory):
    model = directory("marian")
    settings = {"source_lang": "ROMANCE", "target_lang": "en"}
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match=r"source_lang is 'ROMANCE'.*under sources"):
        list_languages(model)
    (model / SETTINGS_FILE).write_text('{"sources": ["fr", "es"]}')
    assert list_languages(model) == (("fr", "es"), ("en",))


@pytest.mark.parametrize("name", tiny_models.BUILDERS)
def test_a_file_that_a_family_needs_is_named(name, directory):
    model = directory(name)
    for file in ("config.json", *(file for (file,) in find_family(model).files)):
        kept = (model / file).read_bytes()
        names = [path.name for path in model.iterdir()]
        assert missing_files(names, "translation") == []
        (model / file).unlink()
        (model / file).symlink_to(model / "nowhere")
        with pytest.raises(ModelError, match=f"it lacks {file}$"):
            check_directory(model, "translation")
        (model / file).unlink()
        (model / file).write_bytes(kept)


SHARES = "share_encoder_decoder_embeddings"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("madlad", {"model_type": "bert"}, "type is 'bert', expected 'm2m_100' or"),
        ("marian", {SHARES: False}, f"{SHARES} is False"),
        ("nllb", {"max_position_embeddings": "many"}, "cannot be converted"),
        ("marian", {"vocab_size": 9}, "cannot be converted: Padding_idx must"),
    ],
)
def test_another_model_is_refused(name, change, said, directory, tmp_path):
    model = directory(name)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ModelError, match=said):
        convert(model, tmp_path / "cache", "float32")


def test_a_t5_without_languages_is_refused(directory):
    model = directory("madlad")
    text = (model / "tokenizer.json").read_text("utf-8").replace('"<2', '"<3')
    (model / "tokenizer.json").write_text(text, "utf-8")
    with pytest.raises(ModelError, match=r"tokenizer.json lists no language"):
        list_languages(model)


@pytest.mark.parametrize(
    ("tokenizer", "config", "limit"),
    [(128, {}, 128), (10**30, {"n_positions": 99}, 99), (10**30, {}, 512)],
)
def test_a_t5s_limit_is_a_sane_one(tmp_path, tokenizer, config, limit):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"} | config))
    told = {"model_max_length": tokenizer}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    assert find_family(tmp_path).read_max_tokens(tmp_path) == limit


class Malice:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_weights_that_run_code_are_refused(directory, tmp_path):
    model, touched = directory("marian"), tmp_path / "touched"
    torch.save({"model": Malice(touched)}, model / "pytorch_model.bin")
    with pytest.raises(ModelError, match="be converted: Weights only load failed"):
        convert(model, tmp_path / "cache", "float32")
    with pytest.raises(pickle.UnpicklingError):
        load_engine("transformers", model, compute_type="float32")
    assert not touched.exists()
