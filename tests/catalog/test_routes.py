"""The models and routes of all kinds of maps, including frozen ones."""

import dataclasses
import json
from typing import Any

import pytest

import catalog
from catalog import CatalogError, TranslationSection

ORIGINAL = {
    **dict.fromkeys(["ko", "en", "zh", "es", "fr"], "0"),
    **dict.fromkeys(["ru", "id", "ja", "vi", "de"], "1"),
    **dict.fromkeys(["it", "hi", "ar", "pt"], "2"),
}


def test_the_original_map_loads_unchanged_and_the_repositorys_spells_it_out(write_map):
    models = catalog.load(write_map(content={"cuda_id": ORIGINAL}), gpus=3)
    assert {model.name: model.device for model in models.models} == ORIGINAL
    assert models.languages == tuple(ORIGINAL)
    assert not models.unchecked_gpus
    for model in models.models:
        assert model.task == "translation"
        assert model.languages == (model.name,)
        assert model.settings == TranslationSection()
    assert catalog.load(gpus=3) == models


@pytest.mark.parametrize("given", [{}, {"gpus": 0}])
def test_a_cluster_has_every_gpu_that_the_map_names(write_map, monkeypatch, given):
    monkeypatch.delattr(catalog, "count_gpus")  # nvidia-smi may take seconds
    content = {"cuda_id": {"ko": "0", "fr": "7"}, "detection": {}} | given
    models = catalog.load(write_map(content=content), gpus=None, is_cluster=True)
    assert [model.device for model in models.models] == ["0", "7", "0"]
    assert not models.unchecked_gpus
    assert json.loads(models.frozen) == content


def test_another_model_replaces_only_the_maps_model(write_map):
    path = write_map({"ko": "cpu"}, model="models/phrasebook", batch_size=8)
    settings = catalog.load(path, model="/models/m2m").models[0].settings
    assert (settings.model, settings.batch_size) == ("/models/m2m", 8)


@pytest.mark.parametrize(
    ("devices", "gpus", "placed", "is_fallback"),
    [
        ({"ko": "0", "pt": "2"}, 0, ["cpu", "cpu"], True),
        ({"ko": "cpu"}, 0, ["cpu"], False),
        ({"ko": "1", "en": "cpu", "fr": ["0", "1"]}, 2, ["1", "cpu", "0,1"], False),
        ({"ko": ["0", "1"]}, 0, ["cpu"], True),
    ],
    ids=["no GPU", "CPU asked for, no GPU", "two GPUs", "a list and no GPU"],
)
def test_models_are_placed(write_map, devices, gpus, placed, is_fallback):
    models = catalog.load(write_map(devices), gpus=gpus)
    assert [model.device for model in models.models] == placed
    assert [model.name for model in models.models] == list(devices)
    assert bool(models.unchecked_gpus) is is_fallback


MIXED = {"ko": "1", "en": ["1", "0"], "fr": "1", "de": "cpu", "pt": ["0", "1"]}
PLACED = {
    "translation-1": ("ko", "fr"),
    "translation-0-1": ("en", "pt"),
    "translation-cpu": ("de",),
}


@pytest.mark.parametrize(
    ("devices", "gpus", "served"),
    [
        (MIXED, 2, PLACED),
        (MIXED, 0, {"translation-cpu": tuple(MIXED)}),
        ({"ko": "0", "fr": ["00"]}, 1, {"translation-0": ("ko", "fr")}),
    ],
    ids=["by device", "no GPU", "one GPU"],
)
def test_languages_of_a_device_share_a_model(write_map, devices, gpus, served):
    models = catalog.load(write_map(devices, placement="device"), gpus=gpus)
    assert {model.name: model.languages for model in models.models} == served
    assert list(served) == [model.name for model in models.models]
    assert models.languages == tuple(devices)
    for name, languages in served.items():
        for language in languages:
            assert models.route("translation", language).name == name
    for absent in (("translation", "af"), ("captioning", "ko")):
        with pytest.raises(KeyError):
            models.route(*absent)


@pytest.mark.parametrize("placement", ["language", "device"])
def test_one_process_has_a_model_for_each_device(write_map, placement):
    path = write_map(MIXED, placement=placement)
    models = catalog.load(path, gpus=2, is_embedded=True).models
    assert {model.name: model.languages for model in models} == PLACED


@pytest.mark.parametrize(
    ("engine", "device", "asked", "resolved"),
    [
        ("ctranslate2", "cpu", "auto", "int8"),
        ("ctranslate2", "0", "auto", "float16"),
        ("transformers", "cpu", "auto", "float32"),
        ("transformers", "0", "auto", "float16"),
        ("transformers", "cpu", "bfloat16", "bfloat16"),
    ],
)
def test_the_precision_is_resolved(write_map, engine, device, asked, resolved):
    path = write_map({"ko": device}, engine=engine, compute_type=asked)
    assert catalog.load(path, gpus=2).models[0].compute_type == resolved


@pytest.mark.parametrize("device", ["2", ["1", "2"]], ids=["alone", "in a list"])
@pytest.mark.parametrize("place", ["cuda_id.it", "captioning.devices"])
def test_a_gpu_that_does_not_exist_is_refused(write_map, place: str, device: Any):
    section, key = place.split(".")
    path = write_map(content={"cuda_id": {"ko": "0"}} | {section: {key: device}})
    with pytest.raises(CatalogError) as refusal:
        catalog.load(path, gpus=2)
    assert str(refusal.value) == (
        f"{path}: {place}: GPU 2 does not exist, this host has 2 (0 to 1). "
        'Name one of them or "cpu".'
    )


@pytest.mark.parametrize("task", catalog.VISION)
def test_a_section_of_a_task_is_a_model_of_its_own(write_map, task: str):
    path = write_map(content={"cuda_id": {"ko": "0"}, task: {}})
    models = catalog.load(path, gpus=1)
    model = models.route(task)
    assert dict(models.tasks) == {task: model}
    assert (model.name, model.task, model.serves) == (task, task, (task,))
    assert (model.devices, model.compute_type) == (("0",), "float16")
    assert [entry.name for entry in models.models] == ["ko", task]
    assert models.languages == ("ko",)


@pytest.mark.parametrize(
    ("gpus", "devices", "workers", "is_fallback"),
    [(2, ("0", "1"), 4, False), (0, ("cpu",), 2, True)],
)
def test_a_task_is_placed_as_languages_are(
    write_map, gpus, devices, workers, is_fallback
):
    path = write_map(content={"captioning": {"devices": ["1", "0"], "workers": 2}})
    models = catalog.load(path, gpus=gpus)
    model = models.route("captioning")
    assert (model.devices, model.workers) == (devices, workers)
    assert bool(models.unchecked_gpus) is is_fallback


MAP = {
    "cuda_id": {"ko": "0", "fr": "1", "de": "cpu"},
    "translation": {"placement": "device"},
    "detection": {},
}


@pytest.mark.parametrize("gpus", [0, 2])
def test_a_frozen_map_does_not_count_gpus_again(write_map, monkeypatch, gpus):
    monkeypatch.setattr(catalog, "count_gpus", lambda: gpus)
    path = write_map(content=MAP)
    models = catalog.load(path, gpus=None)
    assert [model.is_on_gpu for model in models.models][:2] == [gpus > 0] * 2
    frozen = path.with_name("frozen.json")
    frozen.write_text(models.frozen)
    monkeypatch.setattr(catalog, "count_gpus", lambda: 2 - gpus)
    path.write_text("{")
    again = catalog.load(frozen, gpus=None)
    assert again == models
    assert again.frozen == models.frozen


OPUS, MANY, MAIN = "H/opus-mt-en-fr", "H/opus-mt-mul-en", "models/phrasebook"
OWN, DOUBTED = {"model": OPUS}, {"model": OPUS, "fallback": MAIN}
SEVERAL = {"de": "0", "fr": "0", "en": "1", "es": "1"}


@pytest.mark.parametrize(
    ("placement", "targets", "served"),
    [
        ("language", {"fr": OWN}, {"de": MAIN, "fr": OPUS, "en": MAIN, "es": MAIN}),
        (
            "device",
            {"fr": OWN, "en": {"model": MANY}},
            {
                "translation-0 de": MAIN,
                "translation-0-opus-mt-en-fr fr": OPUS,
                "translation-1-opus-mt-mul-en en": MANY,
                "translation-1 es": MAIN,
            },
        ),
        (
            "device",
            {"de": OWN, "fr": OWN},
            {"translation-0-opus-mt-en-fr de fr": OPUS, "translation-1 en es": MAIN},
        ),
        (
            "device",
            {"de": {"model": "/a b/m!1"}, "fr": {"model": "/c/m!1"}},
            {
                "translation-0-m-1-002daca0 de": "/a b/m!1",
                "translation-0-m-1-ab61bea8 fr": "/c/m!1",
                "translation-1 en es": MAIN,
            },
        ),
    ],
    ids=["by language", "by device", "shared weights", "names that are alike"],
)
def test_each_target_has_its_own_model(write_map, placement, targets, served):
    path = write_map(SEVERAL, placement=placement, targets=targets)
    models = catalog.load(path, gpus=2).models
    names = [" ".join(dict.fromkeys((m.name, *m.languages))) for m in models]
    assert dict(zip(names, [m.settings.model for m in models], strict=True)) == served


@pytest.mark.parametrize(
    ("placement", "targets", "fallback", "count"),
    [
        ("language", {"fr": DOUBTED}, ("de", "de fr"), 4),
        ("language", {"es": DOUBTED}, ("en", "en es"), 4),
        ("language", {"es": {"fallback": OPUS}, "fr": OWN}, ("fr", "fr es"), 4),
        ("device", {"es": DOUBTED}, ("translation-1", "en es"), 3),
        (
            "language",
            {"fr": DOUBTED} | dict.fromkeys(("de", "en", "es"), {"model": MANY}),
            ("translation-0", "fr"),
            5,
        ),
    ],
    ids=["first", "on its device", "of a target", "by device", "of its own"],
)
def test_a_fallback_is_another_model_of_the_map(
    write_map, placement, targets, fallback, count
):
    path = write_map(SEVERAL, placement=placement, targets=targets)
    models = catalog.load(path, gpus=2)
    (found,) = models.fallbacks.values()
    assert (found.model.name, " ".join(found.model.languages)) == fallback
    assert found.model in models.models
    assert len(models.models) == count


def test_another_model_for_all_is_the_fallback_as_well(write_map):
    path = write_map(SEVERAL, targets={"fr": DOUBTED})
    found = catalog.load(path, model="/models/m2m").fallbacks["fr"]
    assert (found.model.settings.model, found.below) == ("/models/m2m", 0.0)
    alone = catalog.load(path, model=OPUS)
    assert (alone.fallbacks, alone.models[1].languages) == ({}, ("fr",))


READS = {"en": ["de", "en", "fr"], "fr": ["en"], "ja": ["ko"], "ko": ["en", "ja"]}


@pytest.mark.parametrize(
    ("source", "target", "path_of"),
    [
        ("en", "fr", "fr"),
        ("de", "en", "en"),
        ("de", "fr", "en fr"),
        ("fr", "ko", "en ko"),
        ("ja", "ko", "ko"),
        ("ja", "fr", ""),
        ("ko", "fr", ""),
        ("ko", "en", ""),
        ("de", "ja", ""),
        ("en", "ja", ""),
        ("xx", "fr", ""),
    ],
)
def test_a_path_leads_through_the_pivot_where_it_must(
    write_map, source, target, path_of
):
    loaded = catalog.load(write_map(dict.fromkeys(READS, "cpu"), pivot="en"))
    models = dataclasses.replace(loaded, reads=READS)
    found = models.find_path(source, target)
    assert " ".join(model.name for model in found) == path_of
    assert (source in models.list_sources(target)) is bool(path_of)
    assert (target in models.list_targets(source)) is bool(path_of)
    without = dataclasses.replace(models, pivot="").find_path(source, target)
    assert without == (found if len(found) == 1 else ())
    assert len(loaded.find_path(source, target)) == 1  # reads any language
