"""The map becomes the configuration of Ray Serve."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray.serve.schema import ServeDeploySchema

import catalog
from catalog import SECTIONS, Catalog
from ray_backend.config import Arguments, make_config

KEY = {"key": "secret", "ingress": "http://127.0.0.1:7810"}
SERVED = dict.fromkeys(("en", "fr", "de"), "0")
Map = dict[str, Any]
Load = Callable[[Map], Catalog]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(content: Map) -> Catalog:
        path = tmp_path / "map.json"
        path.write_text(json.dumps(content))
        return catalog.load(path, is_cluster=True)

    return load


def configure(models: Catalog, *, has_gpus: bool = True) -> dict[str, Map]:
    """Return the applications by name."""
    config = make_config(models, **KEY, has_gpus=has_gpus)
    return {each["name"]: each for each in config["applications"]}


def find_deployments(models: Catalog) -> dict[str, Map]:
    """Return the only deployment of each application, merged with its replica options."""
    found = {}
    for name, application in configure(models).items():
        (deployment,) = application["deployments"]
        found[name] = deployment | deployment["ray_actor_options"]
    return found


def test_each_model_is_an_application_under_torchserves_path(load: Load):
    models = load({"cuda_id": {"ko": "0", "fr": "cpu"}, "detection": {}})
    applications = configure(models)
    assert {name: each["route_prefix"] for name, each in applications.items()} == {
        "ko": "/predictions/ko",
        "fr": "/predictions/fr",
        "detection": "/predictions/detection",
    }


def test_the_maps_that_ship_suit_rays_schema():
    for name in ("setup_config.json", "interactive.json", "all_tasks.json"):
        path = catalog.ROOT / "torchserve_backend" / name
        models = catalog.load(path, is_cluster=True)
        for has_gpus in (True, False):
            config = make_config(models, **KEY, has_gpus=has_gpus)
            checked = ServeDeploySchema.model_validate(json.loads(json.dumps(config)))
            assert [each.name for each in checked.applications] == [
                model.name for model in models.models
            ]


def test_a_replica_is_told_all_that_its_model_is(load: Load):
    models = load(
        {
            "cuda_id": {"ko": ["0", "1"], "fr": "cpu"},
            "translation": {"batch_size": 7, "vocabulary": "language"},
            "captioning": {"max_tokens": 9},
        }
    )
    applications = configure(models)
    for model in models.models:
        args = json.loads(json.dumps(applications[model.name]["args"]))
        assert Arguments.model_validate(args).model == model


@pytest.mark.parametrize(
    "changes",
    [
        *({"cluster": {"translation": {"replicas": each}}} for each in (3, [1, 4])),
        {"cluster": {"translation": {"max_replicas_per_machine": 1}}},
        {"cluster": {"translation": {"gpus": 0.5}}},
        {"cluster": {"translation": {"accelerator": "H100"}}},
        {"translation": {"workers": 2}},
    ],
    ids=str,
)
def test_a_new_placement_changes_no_arguments(load: Load, changes: Map):
    plain, moved = (
        configure(load({"cuda_id": {"ko": "0"}} | each))["ko"] for each in ({}, changes)
    )
    assert plain["args"] == moved["args"]
    assert plain["deployments"] != moved["deployments"]


@pytest.mark.parametrize("task", SECTIONS)
def test_a_replica_has_room_and_time_for_its_queue_and_batch(load: Load, task: str):
    section = {"queue_size": 9, "batch_size": 4, "response_timeout": 200}
    models = load({"cuda_id": {"ko": "0"}, task: section})
    model = next(each for each in models.models if each.task == task)
    deployment = find_deployments(models)[model.name]
    assert deployment["max_ongoing_requests"] > 9 + 4
    assert deployment["graceful_shutdown_timeout_s"] > 200


def place(**options: Any) -> Map:
    return {"cluster": {"translation": options}}


ONE_GPU, TWO_GPUS, CPU = (
    {"cuda_id": {"ko": devices}} for devices in ("0", ["0", "1"], "cpu")
)
WORKERS = {"translation": {"workers": 2, "batch_size": 8}}
SCALING = {"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": 8}
DEPLOYMENTS: dict[str, tuple[Map, Map]] = {
    "a replica for each worker": (ONE_GPU | WORKERS, {"num_replicas": 2}),
    "the workers of all devices": (TWO_GPUS | WORKERS, {"num_replicas": 4}),
    "a number": (ONE_GPU | place(replicas=3), {"num_replicas": 3}),
    "an interval of one": (ONE_GPU | place(replicas=[2, 2]), {"num_replicas": 2}),
    "an interval": (
        ONE_GPU | WORKERS | place(replicas=[1, 4]),
        {"num_replicas": None, "autoscaling_config": SCALING},
    ),
    "GPUs may be full": (ONE_GPU, {"num_gpus": 1, "max_surge_percent": 0}),
    "CPUs have room": (
        CPU | place(gpus=0.5, accelerator="H100"),
        {"num_gpus": 0, "max_surge_percent": 1, "accelerator_type": None},
    ),
    "machines may be full": (
        CPU | place(max_replicas_per_machine=2),
        {"max_surge_percent": 0, "max_replicas_per_node": 2},
    ),
    "any number on a machine": (
        CPU | place(max_replicas_per_machine=0),
        {"max_replicas_per_node": None},
    ),
    "the type of a GPU": (
        ONE_GPU | place(accelerator="H100"),
        {"accelerator_type": "H100"},
    ),
}


@pytest.mark.parametrize(
    ("content", "expected"), DEPLOYMENTS.values(), ids=DEPLOYMENTS.keys()
)
def test_a_deployment_is_what_the_map_says(load: Load, content: Map, expected: Map):
    deployment = find_deployments(load(content))["ko"]
    assert {key: deployment.get(key) for key in expected} == expected


SHARES: dict[str, tuple[Map, dict[str, float]]] = {
    "thirds are rounded down": (
        {"cuda_id": {"ko": "0", "fr": "0", "de": "0"}},
        dict.fromkeys(["ko", "fr", "de"], 0.3333),
    ),
    "workers, whose further replicas take further GPUs": (
        {"cuda_id": {"ko": "0", "fr": "1"}} | WORKERS | place(replicas=8),
        {"ko": 0.5, "fr": 0.5},
    ),
    "two GPUs, one of them shared": (
        {"cuda_id": {"ko": ["0", "1"], "fr": "1", "de": "0", "it": "0"}},
        {"ko": 0.3333, "fr": 0.5, "de": 0.3333, "it": 0.3333},
    ),
    "a share of its own takes none from others": (
        ONE_GPU | {"captioning": {}, "cluster": {"captioning": {"gpus": 0.75}}},
        {"ko": 1, "captioning": 0.75},
    ),
}


@pytest.mark.parametrize(("content", "shares"), SHARES.values(), ids=SHARES.keys())
def test_the_gpus_of_a_replica(load: Load, content: Map, shares: dict[str, float]):
    found = find_deployments(load(content))
    assert {name: each["num_gpus"] for name, each in found.items()} == shares


def test_without_gpus_the_same_models_are_on_cpus(load: Load):
    content = {
        "cuda_id": {"ko": ["0", "1"], "fr": "1"},
        "translation": {"placement": "device", "workers": 2},
    }
    applications = configure(load(content), has_gpus=False)
    assert list(applications) == ["translation-0-1", "translation-1"]
    for application in applications.values():
        (deployment,) = application["deployments"]
        assert application["args"]["devices"] == ["cpu"]
        assert deployment["ray_actor_options"] == {"num_cpus": 0.1, "num_gpus": 0}
        assert deployment["num_replicas"] == 2


def test_a_change_of_one_target_changes_one_application(load: Load):
    def configure_with(model: str) -> dict[str, Map]:
        own = {"model": model, "fallback": "models/phrasebook"}
        section = {"targets": {"fr": own}, "pivot": "en"}
        return configure(load({"cuda_id": SERVED, "translation": section}))

    old, new = configure_with("old"), configure_with("new")
    assert [name for name in old if old[name] != new[name]] == ["fr"]
    assert Arguments.model_validate(old["en"]["args"]).model.languages == ("en", "fr")
