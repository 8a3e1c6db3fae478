"""Archives: complete without weights, and with a version that depends on their content."""

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from catalog import Catalog, Model, TranslationSection
from contract.tasks import TRANSLATION
from handlers.engine.directories import ModelError
from tests.torchserve_backend.fakes import want
from torchserve_backend import archiver

WEIGHTS = Path("/models/m2m100/int8")
KO = want("ko").model


def archive(model: Model, store: Path) -> Path:
    desired = archiver.Desired(model, archiver.version(model, WEIGHTS), WEIGHTS)
    archiver.write_archives([desired], store)
    return store / f"{model.name}.mar"


def read(path: Path, name: str) -> str:
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        return file.read(name).decode()


def read_config(path: Path) -> dict[str, Any]:
    config = yaml.safe_load(read(path, "model-config.yaml"))
    assert isinstance(config, dict)
    return config


def test_an_archive_holds_a_manifest_and_the_configuration(tmp_path: Path):
    path = archive(KO, tmp_path / "new" / "store")
    with zipfile.ZipFile(path) as file:
        assert file.namelist() == ["MAR-INF/MANIFEST.json", "model-config.yaml"]
    assert path.stat().st_size < 4096
    assert list(path.parent.iterdir()) == [path]
    manifest = json.loads(read(path, "MAR-INF/MANIFEST.json"))
    assert manifest["runtime"] == "python"
    assert manifest["model"] == {
        "modelName": "ko",
        "modelVersion": archiver.version(KO, WEIGHTS),
        "handler": "handlers.translation",
        "configFile": "model-config.yaml",
    }
    config = read_config(path)
    assert config["deviceType"] == "cpu"
    assert "deviceIds" not in config
    assert config["handler"]["devices"] == ["cpu"]
    assert config["handler"]["compute_type"] == "int8"


def test_the_configuration_says_what_the_map_says(tmp_path: Path):
    settings = TranslationSection(
        batch_size=8,
        max_batch_delay=5,
        workers=2,
        queue_size=9,
        response_timeout=33,
        max_batch_tokens=0,
        max_beam_size=4,
        max_alternatives=3,
    )
    # `no` without quotes is a boolean in YAML.
    model = Model("shared", "translation", ("ko", "no"), ("0", "2"), settings)
    config = read_config(archive(model, tmp_path))
    assert config == {
        "minWorkers": 4,
        "maxWorkers": 4,
        "batchSize": 8,
        "maxBatchDelay": 5,
        "responseTimeout": 33,
        "startupTimeout": 600,
        "maxRetryTimeoutInSec": 86_400,
        "jobQueueSize": 9,
        "deviceType": "gpu",
        "deviceIds": [0, 2],
        "handler": {
            "model_path": str(WEIGHTS),
            "languages": ["ko", "no"],
            "engine": "ctranslate2",
            "compute_type": "float16",
            "devices": ["0", "2"],
            "max_batch_tokens": 0,
            "max_beam_size": 4,
            "max_alternatives": 3,
        },
    }


@pytest.mark.parametrize(
    ("model", "weights", "is_same"),
    [
        (want("ko", compute_type="int8").model, "int8", True),
        (want("ko", model="elsewhere").model, "int8", True),
        (dataclasses.replace(KO, devices=("0",)), "int8", False),
        (KO, "float32", False),
        (want("ko", queue_size=9).model, "int8", False),
        (want("ko", max_beam_size=4).model, "int8", False),
    ],
    ids=["a default", "a name", "device", "weights", "TorchServe's", "the handler's"],
)
def test_the_version_changes_with_the_content_only(model, weights, is_same):
    version = archiver.version(model, WEIGHTS.with_name(weights))
    assert (version == archiver.version(KO, WEIGHTS)) == is_same


def test_the_version_changes_with_the_weights(tmp_path: Path):
    before = archiver.version(KO, tmp_path)
    (tmp_path / ".git").mkdir()
    assert archiver.version(KO, tmp_path) == before
    (tmp_path / "model.safetensors").touch()
    assert archiver.version(KO, tmp_path) != before


def test_our_versions_are_told_from_others():
    assert archiver.is_ours(archiver.version(KO, WEIGHTS))
    for other in ("1.0", "1.0-7f4118720", "1.0-7f411872\n"):
        assert not archiver.is_ours(other)


def test_each_language_must_be_one_of_its_models():
    models = [want(code, engine="echo").model for code in ("fr", "sw")]
    served = Catalog({(TRANSLATION, model.name): model for model in models})
    with pytest.raises(ModelError, match="does not know sw"):
        archiver.list_desired(served)


def test_archives_of_earlier_maps_go_and_those_of_others_stay(tmp_path: Path):
    archive(want("fr").model, tmp_path)
    (tmp_path / "damaged.mar").write_bytes(b"PK")
    for name, version in (("theirs.mar", "1.0"), ("by-hand.mar", 1.0)):
        manifest = json.dumps({"model": {"modelVersion": version}})
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr("MAR-INF/MANIFEST.json", manifest)
    archive(KO, tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"ko.mar", "damaged.mar", "theirs.mar", "by-hand.mar"}
