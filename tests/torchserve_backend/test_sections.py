"""The map's sections for captioning, classification and detection: models of their own."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchserve_backend.catalog import CatalogError, load

KO = {"ko": "0"}
Write = Callable[[Any], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a map."""

    def write(content: Any) -> Path:
        path = tmp_path / "setup_config.json"
        path.write_text(json.dumps(content))
        return path

    return write


VISION_DEFAULTS = {
    "compute_type": "auto",
    "workers": 1,
    "devices": "0",
    "queue_size": 256,
    "threads": 0,
    "max_pixels": 7680 * 4320,
}


@pytest.mark.parametrize(
    ("task", "defaults"),
    [
        (
            "captioning",
            {
                "model": "models/shapes/captioning",
                "batch_size": 1,
                "max_batch_delay": 0,
                "response_timeout": 120,
                "max_batch_frames": 32,
                "max_tokens": 30,
            },
        ),
        (
            "classification",
            {
                "model": "models/shapes/classification",
                "batch_size": 64,
                "max_batch_delay": 5,
                "response_timeout": 60,
            },
        ),
        (
            "detection",
            {
                "model": "models/shapes/detection",
                "batch_size": 8,
                "max_batch_delay": 5,
                "response_timeout": 60,
            },
        ),
    ],
)
def test_a_section_of_a_task_is_a_model_of_its_own(
    write: Write, task: str, defaults: dict[str, Any]
):
    models = load(write({"cuda_id": KO, task: {}}), gpus=1)
    model = models.route(task)
    assert dict(models.tasks) == {task: model}
    assert (model.name, model.task, model.serves) == (task, task, (task,))
    assert (model.devices, model.compute_type) == (("0",), "float16")
    assert dataclasses.asdict(model.settings) == VISION_DEFAULTS | defaults
    assert [entry.name for entry in models.models] == ["ko", task]
    assert models.languages == ("ko",)


def test_a_task_without_a_section_is_not_served(write: Write):
    models = load(write({"cuda_id": KO}))
    assert dict(models.tasks) == {}
    with pytest.raises(KeyError):
        models.route("captioning")


def test_a_map_may_serve_images_alone(write: Write):
    models = load(write({"detection": {"devices": "cpu"}}), gpus=1)
    assert (models.languages, list(models.tasks)) == ((), ["detection"])
    assert not models.is_cpu_fallback


def test_translation_needs_languages(write: Write):
    with pytest.raises(CatalogError, match="cuda_id: expected an object"):
        load(write({"translation": {}, "detection": {}}))


@pytest.mark.parametrize(
    ("devices", "expected"),
    [("cpu", ("cpu",)), ("1", ("1",)), (["1", "0"], ("0", "1"))],
    ids=str,
)
def test_a_task_is_placed_as_languages_are(write: Write, devices: Any, expected: Any):
    path = write({"captioning": {"devices": devices, "workers": 2}})
    model = load(path, gpus=2).route("captioning")
    assert (model.devices, model.workers) == (expected, 2 * len(expected))
    assert hash(model)


def test_a_task_s_gpu_has_to_exist(write: Write):
    path = write({"captioning": {"devices": ["0", "4"]}})
    with pytest.raises(
        CatalogError, match=r"captioning\.devices: GPU 4 does not exist"
    ):
        load(path, gpus=4)


def test_without_a_gpu_a_task_runs_on_the_cpu(write: Write):
    models = load(write({"captioning": {"devices": "1"}}))
    assert models.is_cpu_fallback
    assert models.route("captioning").devices == ("cpu",)


@pytest.mark.parametrize(
    ("section", "expectation"),
    [
        ([], "captioning: expected an object, found []"),
        ({"max_batch_frames": 0}, "captioning.max_batch_frames: expected a whole"),
        ({"devices": "tpu"}, 'captioning.devices: expected "cpu", a GPU number'),
        ({"placement": "device"}, "captioning.placement: unknown; expected one of"),
        ({"compute_type": "int8"}, "captioning.compute_type: expected one of auto, "),
    ],
    ids=str,
)
def test_a_bad_section_of_a_task_is_refused(
    write: Write, section: Any, expectation: str
):
    with pytest.raises(CatalogError, match=re.escape(expectation)):
        load(write({"cuda_id": KO, "captioning": section}))
