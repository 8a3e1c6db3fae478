"""From the map to the configuration of Ray Serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ray.serve.schema import ServeDeploySchema

import catalog
from catalog import SECTIONS, Catalog
from ray_backend.config import Arguments, make_config

DIGEST = "0" * 64


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Loads a map for a cluster."""

    def load(content: dict[str, Any]) -> Catalog:
        path = tmp_path / "map.json"
        path.write_text(json.dumps(content))
        return catalog.load(path, is_cluster=True)

    return load


def configure(models: Catalog, *, has_gpus: bool = True) -> dict[str, dict[str, Any]]:
    """The applications, by their name."""
    config = make_config(models, key_digest=DIGEST, has_gpus=has_gpus)
    return {each["name"]: each for each in config["applications"]}


def find_deployments(
    models: Catalog, *, has_gpus: bool = True
) -> dict[str, dict[str, Any]]:
    """The one deployment of each application."""
    found = {}
    for name, application in configure(models, has_gpus=has_gpus).items():
        (found[name],) = application["deployments"]
    return found


def find_shares(models: Catalog) -> dict[str, float]:
    """GPUs of a replica."""
    return {
        name: deployment["ray_actor_options"]["num_gpus"]
        for name, deployment in find_deployments(models).items()
    }


def test_each_model_is_an_application_under_torchserves_path(load: Any):
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
            config = make_config(models, key_digest=DIGEST, has_gpus=has_gpus)
            checked = ServeDeploySchema.model_validate(json.loads(json.dumps(config)))
            assert [each.name for each in checked.applications] == [
                model.name for model in models.models
            ]


def test_a_replica_is_told_all_that_its_model_is(load: Any):
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
        assert args["key_digest"] == DIGEST


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": {"translation": {"replicas": 3}}},
        {"cluster": {"translation": {"replicas": [1, 4]}}},
        {"cluster": {"translation": {"max_replicas_per_machine": 1}}},
        {"cluster": {"translation": {"gpus": 0.5}}},
        {"cluster": {"translation": {"accelerator": "H100"}}},
        {"translation": {"workers": 2}},
    ],
    ids=str,
)
def test_a_new_placement_changes_no_arguments(load: Any, changes: dict[str, Any]):
    plain, moved = (
        configure(load({"cuda_id": {"ko": "0"}} | each))["ko"] for each in ({}, changes)
    )
    assert plain["args"] == moved["args"]
    assert plain["deployments"] != moved["deployments"]


@pytest.mark.parametrize("task", SECTIONS)
def test_ray_takes_more_rows_than_a_replicas_queue_and_batch(load: Any, task: str):
    models = load({"cuda_id": {"ko": "0"}, task: {"queue_size": 9, "batch_size": 4}})
    model = next(each for each in models.models if each.task == task)
    assert find_deployments(models)[model.name]["max_ongoing_requests"] > 9 + 4


@pytest.mark.parametrize(
    ("device", "placement", "surge"),
    [
        pytest.param("0", {}, 0, id="GPUs may be full"),
        pytest.param("cpu", {}, 1, id="CPUs have room"),
        pytest.param(
            "cpu", {"max_replicas_per_machine": 2}, 0, id="machines may be full"
        ),
    ],
)
def test_a_new_replica_starts_first_where_there_is_room(
    load: Any, device: str, placement: dict[str, Any], surge: int
):
    content = {"detection": {"devices": device}, "cluster": {"detection": placement}}
    models = load(content)
    assert find_deployments(models)["detection"]["max_surge_percent"] == surge


def test_replicas_may_share_a_machine_unless_the_map_keeps_them_apart(load: Any):
    models = load(
        {
            "captioning": {},
            "detection": {},
            "cluster": {
                "captioning": {"max_replicas_per_machine": 2},
                "detection": {"max_replicas_per_machine": 0},
            },
        }
    )
    found = find_deployments(models)
    assert found["captioning"]["max_replicas_per_node"] == 2
    assert "max_replicas_per_node" not in found["detection"]


def test_a_replica_that_ends_may_finish_its_batch(load: Any):
    models = load({"detection": {"response_timeout": 200}})
    deployment = find_deployments(models)["detection"]
    assert deployment["graceful_shutdown_timeout_s"] > 200


REPLICAS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "the workers": ("0", "auto", {"num_replicas": 2}),
    "the workers of all devices": (["0", "1"], "auto", {"num_replicas": 4}),
    "a number": ("0", 3, {"num_replicas": 3}),
    "an interval": (
        "0",
        [1, 4],
        {
            "autoscaling_config": {
                "min_replicas": 1,
                "max_replicas": 4,
                "target_ongoing_requests": 8,
            }
        },
    ),
}


@pytest.mark.parametrize(
    ("devices", "replicas", "expected"), REPLICAS.values(), ids=REPLICAS.keys()
)
def test_the_number_of_replicas(
    load: Any, devices: Any, replicas: Any, expected: dict[str, Any]
):
    models = load(
        {
            "cuda_id": {"ko": devices},
            "translation": {"workers": 2, "batch_size": 8},
            "cluster": {"translation": {"replicas": replicas}},
        }
    )
    deployment = find_deployments(models)["ko"]
    found = {"num_replicas", "autoscaling_config"} & deployment.keys()
    assert {key: deployment[key] for key in found} == expected


SHARES: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "a GPU of its own": ({"cuda_id": {"ko": "0"}}, {"ko": 1}),
    "a CPU": (
        {"cuda_id": {"ko": "cpu"}, "cluster": {"translation": {"gpus": 0.5}}},
        {"ko": 0},
    ),
    "thirds are rounded down": (
        {"cuda_id": {"ko": "0", "fr": "0", "de": "0"}},
        dict.fromkeys(["ko", "fr", "de"], 0.3333),
    ),
    "replicas take further GPUs": (
        {
            "cuda_id": {"ko": "0", "fr": "0"},
            "cluster": {"translation": {"replicas": 8}},
        },
        {"ko": 0.5, "fr": 0.5},
    ),
    "two GPUs, one of them shared": (
        {"cuda_id": {"ko": ["0", "1"], "fr": "1", "de": "0", "it": "0"}},
        {"ko": 0.3333, "fr": 0.5, "de": 0.3333, "it": 0.3333},
    ),
    "a share of its own takes none from others": (
        {
            "cuda_id": {"ko": "0"},
            "captioning": {},
            "cluster": {"captioning": {"gpus": 0.75}},
        },
        {"ko": 1, "captioning": 0.75},
    ),
}


@pytest.mark.parametrize(("content", "shares"), SHARES.values(), ids=SHARES.keys())
def test_the_gpus_of_a_replica(
    load: Any, content: dict[str, Any], shares: dict[str, float]
):
    assert find_shares(load(content)) == shares


@pytest.mark.parametrize("device", ["0", "cpu"])
def test_the_type_of_gpu_matters_on_gpus_only(load: Any, device: str):
    models = load(
        {
            "detection": {"devices": device},
            "cluster": {"detection": {"accelerator": "H100"}},
        }
    )
    options = find_deployments(models)["detection"]["ray_actor_options"]
    assert options.get("accelerator_type") == ("H100" if device == "0" else None)


def test_without_gpus_the_same_models_are_on_cpus(load: Any):
    content = {
        "cuda_id": {"ko": ["0", "1"], "fr": "1"},
        "translation": {"placement": "device", "workers": 2},
    }
    models = load(content)
    applications = configure(models, has_gpus=False)
    assert list(applications) == ["translation-0-1", "translation-1"]
    for application in applications.values():
        (deployment,) = application["deployments"]
        assert application["args"]["devices"] == ["cpu"]
        assert deployment["ray_actor_options"] == {"num_cpus": 0.1, "num_gpus": 0}
        assert deployment["num_replicas"] == 2
