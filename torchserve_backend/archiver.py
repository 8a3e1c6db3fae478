"""Writes a model's archive: only a manifest and a `model-config.yaml`. The handler and
the weights stay where they are.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import yaml

from catalog import Model, describe_handler
from contract import durable

#: TorchServe itself must not give up, because the registrar decides when to revive a model.
_RETRY_S = 86_400
_STARTUP_S = 600

_VERSION = re.compile("1[.]0-[0-9a-f]{8}")


def archive_name(model: Model) -> str:
    """The name that `POST /models?url=` takes."""
    return f"{model.name}.mar"


def version(model: Model, model_path: Path) -> str:
    """A version that changes with the archive's content, so an old one is noticed."""
    digest = hashlib.sha256(_render_config(model, model_path).encode()).hexdigest()
    return f"1.0-{digest[:8]}"


def is_ours(version: str) -> bool:
    """Whether archives written here can have this version. Others were registered by somebody
    else."""
    return _VERSION.fullmatch(version) is not None


def archive(model: Model, store: Path, model_path: Path) -> Path:
    """Writes `store/<name>.mar` for a model whose weights lie in `model_path`."""
    store.mkdir(parents=True, exist_ok=True)
    path = store / archive_name(model)
    with durable.create(path) as target, zipfile.ZipFile(target, "w") as file:
        file.writestr(
            "MAR-INF/MANIFEST.json",
            json.dumps(_make_manifest(model, model_path), indent=2),
        )
        file.writestr("model-config.yaml", _render_config(model, model_path))
    return path


def _make_manifest(model: Model, model_path: Path) -> dict[str, Any]:
    return {
        "createdOn": "01/01/2026 00:00:00",
        "runtime": "python",
        "archiverVersion": "0.12.0",
        "model": {
            "modelName": model.name,
            "modelVersion": version(model, model_path),
            "handler": f"handlers.{model.task}",
            "configFile": "model-config.yaml",
        },
    }


def _render_config(model: Model, model_path: Path) -> str:
    settings = model.settings
    config: dict[str, Any] = {
        "minWorkers": model.workers,
        "maxWorkers": model.workers,
        "batchSize": settings.batch_size,
        "maxBatchDelay": settings.max_batch_delay,
        "responseTimeout": settings.response_timeout,
        "startupTimeout": _STARTUP_S,
        "maxRetryTimeoutInSec": _RETRY_S,
        "jobQueueSize": settings.queue_size,
        "deviceType": "gpu" if model.is_on_gpu else "cpu",
        "handler": describe_handler(model, model_path),
    }
    if model.is_on_gpu:
        # TorchServe deals the workers out to them in turn.
        config["deviceIds"] = list(map(int, model.devices))
    return yaml.safe_dump(config, sort_keys=False)
