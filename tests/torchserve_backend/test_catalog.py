"""The map: what is read, what is assumed, and every refusal with its place and reason."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchserve_backend import catalog
from torchserve_backend.catalog import CatalogError
from torchserve_backend.sections import PLACEMENTS

ORIGINAL = {
    **dict.fromkeys(["ko", "en", "zh", "es", "fr"], "0"),
    **dict.fromkeys(["ru", "id", "ja", "vi", "de"], "1"),
    **dict.fromkeys(["it", "hi", "ar", "pt"], "2"),
}


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "setup_config.json"


def test_the_original_map_loads_unchanged(path: Path):
    models = catalog.load(write(path, {"cuda_id": ORIGINAL}), gpus=3)
    assert {model.name: model.device for model in models.models} == ORIGINAL
    assert models.languages == tuple(ORIGINAL)
    assert not models.is_cpu_fallback
    for model in models.models:
        assert model.task == "translation"
        assert model.languages == (model.name,)
        assert dataclasses.asdict(model.settings) == {
            "model": "models/phrasebook",
            "engine": "ctranslate2",
            "compute_type": "auto",
            "batch_size": 64,
            "max_batch_delay": 100,
            "placement": "language",
            "workers": 1,
            "queue_size": 4096,
            "response_timeout": 60,
            "max_batch_tokens": 4096,
            "max_beam_size": 8,
            "max_alternatives": 5,
        }


def test_the_repositorys_map_is_the_original_with_its_defaults_spelled_out(path: Path):
    original = write(path, {"cuda_id": ORIGINAL})
    assert catalog.load(gpus=3) == catalog.load(original, gpus=3)


def test_every_setting_can_be_written(path: Path):
    section = {
        "model": "facebook/m2m100_418M",
        "engine": "transformers",
        "compute_type": "bfloat16",
        "batch_size": 1,
        "max_batch_delay": 5,
        "placement": "language",
        "workers": 2,
        "queue_size": 8,
        "response_timeout": 300,
        "max_batch_tokens": 0,
        "max_beam_size": 1,
        "max_alternatives": 0,
    }
    content = {"cuda_id": {"no": "cpu"}, "translation": section}
    (model,) = catalog.load(write(path, content)).models
    assert dataclasses.asdict(model.settings) == section


def test_another_model_replaces_only_the_maps_model(path: Path):
    section = {"model": "models/phrasebook", "batch_size": 8}
    write(path, {"cuda_id": {"ko": "cpu"}, "translation": section})
    settings = catalog.load(path, model="/models/m2m").models[0].settings
    assert (settings.model, settings.batch_size) == ("/models/m2m", 8)


@pytest.mark.parametrize(
    ("devices", "gpus", "placed", "is_fallback"),
    [
        pytest.param({"ko": "0", "pt": "2"}, 0, ["cpu", "cpu"], True, id="no GPU"),
        pytest.param({"ko": "cpu"}, 0, ["cpu"], False, id="CPU asked for, no GPU"),
        pytest.param({"ko": "cpu", "en": "0"}, 1, ["cpu", "0"], False, id="both"),
        pytest.param({"ko": "00"}, 1, ["0"], False, id="leading zero"),
        pytest.param({"ko": "1", "en": "0"}, 2, ["1", "0"], False, id="two GPUs"),
        pytest.param({"ko": ["0", "1"]}, 2, ["0,1"], False, id="one language on two"),
        pytest.param({"ko": ["10", "9"]}, 11, ["9,10"], False, id="in another order"),
        pytest.param(
            {"ko": ["1"], "en": "1"}, 2, ["1", "1"], False, id="a list of one"
        ),
        pytest.param({"ko": ["0", "1"]}, 0, ["cpu"], True, id="a list and no GPU"),
    ],
)
def test_models_are_placed(
    path: Path,
    devices: dict[str, Any],
    gpus: int,
    placed: list[str],
    is_fallback: bool,
):
    models = catalog.load(write(path, {"cuda_id": devices}), gpus=gpus)
    assert [model.device for model in models.models] == placed
    assert [model.name for model in models.models] == list(devices)
    assert models.is_cpu_fallback is is_fallback


MIXED = {"ko": "1", "en": ["1", "0"], "fr": "1", "de": "cpu", "pt": ["0", "1"]}


@pytest.mark.parametrize(
    ("devices", "gpus", "served"),
    [
        pytest.param(
            MIXED,
            2,
            {
                "translation-1": ("ko", "fr"),
                "translation-0-1": ("en", "pt"),
                "translation-cpu": ("de",),
            },
            id="by device",
        ),
        pytest.param(MIXED, 0, {"translation-cpu": tuple(MIXED)}, id="no GPU"),
        pytest.param(
            {"ko": "0", "fr": ["00"]}, 1, {"translation-0": ("ko", "fr")}, id="one GPU"
        ),
    ],
)
def test_languages_of_a_device_share_a_model(
    path: Path, devices: dict[str, Any], gpus: int, served: dict[str, tuple[str, ...]]
):
    section = {"placement": "device"}
    write(path, {"cuda_id": devices, "translation": section})
    models = catalog.load(path, gpus=gpus)
    assert {model.name: model.languages for model in models.models} == served
    assert list(served) == [model.name for model in models.models]
    assert models.languages == tuple(devices)
    for name, languages in served.items():
        for language in languages:
            assert models.route("translation", language).name == name


@pytest.mark.parametrize(
    ("device", "gpus", "workers"), [("cpu", 0, 3), ("0", 1, 3), (["0", "1"], 2, 6)]
)
def test_every_device_has_its_workers(path: Path, device: Any, gpus: int, workers: int):
    section = {"workers": 3}
    write(path, {"cuda_id": {"ko": device}, "translation": section})
    assert catalog.load(path, gpus=gpus).models[0].workers == workers


@pytest.mark.parametrize(
    ("engine", "device", "asked", "resolved"),
    [
        ("ctranslate2", "cpu", "auto", "int8"),
        ("ctranslate2", "0", "auto", "float16"),
        ("transformers", "cpu", "auto", "float32"),
        ("transformers", "0", "auto", "float16"),
        ("ctranslate2", ["0", "1"], "auto", "float16"),
        ("ctranslate2", "0", "int8_float16", "int8_float16"),
        ("transformers", "cpu", "bfloat16", "bfloat16"),
    ],
)
def test_the_precision_is_resolved(
    path: Path, engine: str, device: Any, asked: str, resolved: str
):
    section = {"engine": engine, "compute_type": asked}
    write(path, {"cuda_id": {"ko": device}, "translation": section})
    assert catalog.load(path, gpus=2).models[0].compute_type == resolved


def test_a_model_is_found_by_task_and_language(path: Path):
    models = catalog.load(write(path, {"cuda_id": {"ko": "cpu", "fr": "cpu"}}))
    assert models.route("translation", "fr") is models.models[1]
    with pytest.raises(KeyError, match="de"):
        models.route("translation", "de")
    with pytest.raises(KeyError, match="fr"):
        models.route("captioning", "fr")


KO = {"ko": "0"}
SUCH_AS = 'such as {"ko": "0"}'
DEVICE = (
    'expected "cpu", a GPU number such as "0", or a list of different GPU numbers such '
    'as ["0", "1"]'
)
LANGUAGE = "expected an ISO 639 code in lower case"
TEXT = "expected a non-empty string"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param('{"cuda_id": ', ["Expecting value", "line 1"], id="not JSON"),
        pytest.param("", ["Expecting value"], id="empty file"),
        pytest.param("[1]", ["expected an object", SUCH_AS[8:], "[1]"], id="a list"),
        pytest.param('"ko"', ["expected an object", "'ko'"], id="a string"),
        pytest.param(
            '{"cuda_id": {"ko": "0", "en": "0", "ko": "1"}}',
            ['"ko" is there twice', "'0'", "'1'", "expected every key once"],
            id="a language twice",
        ),
        pytest.param(
            '{"cuda_id": {"ko": "0"}, "cuda_id": {"en": "0"}}',
            ['"cuda_id" is there twice', "expected every key once"],
            id="a section twice",
        ),
        pytest.param(
            {"cuda_id": KO, "devices": {}},
            [": devices: unknown", "expected one of cuda_id, translation"],
            id="unknown key",
        ),
        pytest.param(
            {"cuda_id": KO, "translation": {"batchsize": 8}},
            ["translation.batchsize: unknown", "batch_size"],
            id="unknown setting",
        ),
        pytest.param(
            {"cuda_id": KO, "translation": None},
            ["translation: expected an object, found None"],
            id="settings not an object",
        ),
        pytest.param({}, ["cuda_id: expected", SUCH_AS, "None"], id="no cuda_id"),
        pytest.param({"cuda_id": {}}, ["cuda_id: expected", "{}"], id="no language"),
        pytest.param(
            {"cuda_id": ["ko"]}, ["cuda_id: expected", "['ko']"], id="cuda_id a list"
        ),
    ],
)
def test_a_malformed_map_is_refused(path: Path, content: Any, says: list[str]):
    assert_refused(write(path, content), says)


@pytest.mark.parametrize(
    "language", ["KO", "k", "koko", "k1", "k-", "zh_CN", "é", "한국", "../x", ""]
)
def test_a_bad_language_is_refused(path: Path, language: str):
    write(path, {"cuda_id": {language: "0"}})
    assert_refused(path, [f"cuda_id.{language}: ", LANGUAGE])


@pytest.mark.parametrize(
    "device",
    [
        *(0, True, None, "", "gpu0", "-1", "0.5", "²", "CPU", "0,1", {"0": "1"}),
        pytest.param([], id="no GPU in a list"),
        pytest.param(["0", "0"], id="a GPU twice"),
        pytest.param(["1", "01"], id="a GPU twice, written in two ways"),
        pytest.param(["cpu", "0"], id="the CPU beside a GPU"),
        pytest.param(["cpu"], id="the CPU in a list"),
        pytest.param([0, 1], id="numbers without quotes"),
        pytest.param(["0", None], id="null in a list"),
        pytest.param([["0"]], id="a list in a list"),
    ],
)
def test_a_bad_device_is_refused(path: Path, device: Any):
    write(path, {"cuda_id": {"ko": device}})
    assert_refused(path, ["cuda_id.ko: ", DEVICE, f"found {device!r}"])


RANGES = {
    "batch_size": "of at least 1",
    "max_batch_delay": "of at least 0",
    "workers": "of at least 1",
    "queue_size": "of at least 1",
    "response_timeout": "of at least 1",
    "max_batch_tokens": "of at least 0",
    "max_beam_size": "from 1 to 8",
    "max_alternatives": "from 0 to 5",
}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *((setting, -1) for setting in RANGES),
        *(("batch_size", value) for value in (6.0, "6", True, False, None, [6])),
    ],
)
def test_a_bad_number_is_refused(path: Path, setting: str, value: Any):
    write(path, {"cuda_id": KO, "translation": {setting: value}})
    expectation = f"expected a whole number {RANGES[setting]}, found {value!r}"
    assert_refused(path, [f"translation.{setting}: {expectation}"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("batch_size", 0), ("max_batch_delay", -1), ("workers", 0)),
        *(("queue_size", 0), ("response_timeout", 0)),
        *(("max_beam_size", 0), ("max_beam_size", 9), ("max_alternatives", 6)),
    ],
)
def test_a_number_out_of_its_range_is_refused(path: Path, setting: str, value: int):
    test_a_bad_number_is_refused(path, setting, value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("max_batch_tokens", 0), ("max_beam_size", 1), ("max_beam_size", 8)),
        *(("max_alternatives", 0), ("max_alternatives", 5), ("batch_size", 1)),
    ],
)
def test_the_ends_of_a_range_are_taken(path: Path, setting: str, value: int):
    write(path, {"cuda_id": KO, "translation": {setting: value}})
    assert getattr(catalog.load(path).models[0].settings, setting) == value


@pytest.mark.parametrize(
    ("setting", "value", "expectation"),
    [
        ("model", "", TEXT),
        ("model", 3, TEXT),
        ("model", None, TEXT),
        ("engine", True, "expected one of ctranslate2, transformers"),
        ("engine", "onnx", "expected one of ctranslate2, transformers"),
        ("placement", "gpu", "expected one of language, device"),
        ("placement", ["device"], "expected one of language, device"),
        ("compute_type", 8, TEXT),
        ("compute_type", "int7", "expected one of auto, int8, "),
        ("compute_type", "int8 ", "expected one of auto, int8, "),
    ],
)
def test_a_bad_text_is_refused(path: Path, setting: str, value: Any, expectation: str):
    write(path, {"cuda_id": KO, "translation": {setting: value}})
    assert_refused(path, [f"translation.{setting}: ", expectation, f"found {value!r}"])


def test_a_precision_of_the_other_engine_is_refused(path: Path):
    section = {"engine": "transformers", "compute_type": "int8"}
    write(path, {"cuda_id": KO, "translation": section})
    expectation = "expected one of auto, float32, float16, bfloat16 with the engine"
    assert_refused(path, ["translation.compute_type: ", expectation, "found 'int8'"])


@pytest.mark.parametrize("device", ["2", ["1", "2"]], ids=["alone", "in a list"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_gpu_that_does_not_exist_is_refused(path: Path, placement: str, device: Any):
    section = {"placement": placement}
    write(path, {"cuda_id": {"ko": "0", "it": device}, "translation": section})
    says = ["cuda_id.it: GPU 2 does not exist", "this host has 2 (0 to 1)", '"cpu"']
    assert_refused(path, says, gpus=2)


def test_a_missing_file_is_refused(path: Path):
    assert_refused(path, ["No such file"])


def test_a_file_that_is_not_utf8_is_refused(path: Path):
    path.write_bytes(b'{"cuda_id": {"ko": "\xff"}}')
    assert_refused(path, ["utf-8", "0xff"])


def assert_refused(path: Path, says: list[str], gpus: int = 0) -> None:
    with pytest.raises(CatalogError) as refusal:
        catalog.load(path, gpus=gpus)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    for words in says:
        assert words in message


def test_nothing_of_a_catalog_can_be_changed(write_map: Callable[..., Path]):
    models = catalog.load(write_map())
    for value in (models, models.models[0], models.models[0].settings):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, None)
