"""The map as `make up` freezes it gives the same catalog again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import catalog

MAP = {
    "cuda_id": {"ko": "0", "fr": "1", "de": "cpu"},
    "translation": {"placement": "device"},
    "detection": {},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "map.json"
    path.write_text(json.dumps(MAP))
    return path


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: A'\necho 'GPU 1: B'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return program


def test_a_frozen_map_does_not_count_gpus_again(path: Path, nvidia_smi: Path):
    models = catalog.load(path, gpus=None)
    assert [model.name for model in models.models][:2] == [
        "translation-0",
        "translation-1",
    ]
    frozen = path.with_name("frozen.json")
    frozen.write_text(models.frozen)
    nvidia_smi.write_text("#!/bin/sh\nexit 9\n")
    path.write_text("{")
    again = catalog.load(frozen, gpus=None)
    assert again == models
    assert again.frozen == models.frozen


def test_without_gpus_it_stays_on_the_cpu(path: Path, nvidia_smi: Path):
    nvidia_smi.rename(nvidia_smi.with_name("away"))
    models = catalog.load(path, gpus=None)
    frozen = path.with_name("frozen.json")
    frozen.write_text(models.frozen)
    nvidia_smi.with_name("away").rename(nvidia_smi)
    assert catalog.load(frozen, gpus=None) == models
    assert not any(model.is_on_gpu for model in models.models)
