"""Prepares the weights and the archive of every model for TorchServe. An archive has only a
manifest and a `model-config.yaml`; the handler and the weights stay where they are.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from catalog import Catalog, Model, checkpoint, describe_handler
from contract import durable
from handlers.engine.directories import Digests, list_states

#: TorchServe must not give up on a model, because the registrar decides when to revive it.
_RETRY_S = 86_400
_STARTUP_S = 600
_MANIFEST = "MAR-INF/MANIFEST.json"

_VERSION = re.compile("1[.]0-[0-9a-f]{8}")


@dataclass(frozen=True)
class Desired:
    """A model as the map describes it, and its archive."""

    model: Model
    version: str
    #: The directory of its weights, named in the archive.
    model_path: Path = Path()

    @property
    def name(self) -> str:
        """Its name in TorchServe."""
        return self.model.name

    @property
    def archive(self) -> str:
        """The archive's name for `POST /models?url=`."""
        return f"{self.name}.mar"


def list_desired(models: Catalog, *, are_read: bool = False) -> list[Desired]:
    """Return the state that the registrar establishes, after downloading and converting missing
    models. With `are_read`, check conversions against their checksums and repeat damaged ones.

    Raises ModelError if a model does not exist.
    """
    cache = checkpoint.default_cache()
    digests = Digests() if are_read else None
    desired = []
    for model in models.models:
        path = checkpoint.prepare(model, cache, digests)
        desired.append(Desired(model, version(model, path), path))
    return desired


def write_archives(desired: Iterable[Desired], store: Path) -> None:
    """Write `<name>.mar` for every model, then remove our archives of models that the map no
    longer names. Archives from other sources remain."""
    store.mkdir(parents=True, exist_ok=True)
    written = set[Path]()
    for entry in desired:
        manifest = {
            "createdOn": "01/01/2026 00:00:00",
            "runtime": "python",
            "archiverVersion": "0.12.0",
            "model": {
                "modelName": entry.name,
                "modelVersion": entry.version,
                "handler": f"handlers.{entry.model.task}",
                "configFile": "model-config.yaml",
            },
        }
        config = _render_config(entry.model, entry.model_path)
        path = store / entry.archive
        with durable.create(path) as target, zipfile.ZipFile(target, "w") as file:
            file.writestr(_MANIFEST, json.dumps(manifest, indent=2))
            file.writestr("model-config.yaml", config)
        written.add(path)
    for path in {*store.glob("*.mar")} - written:
        with suppress(Exception):  # an operator's file, with whatever content
            manifest = json.loads(zipfile.Path(path, _MANIFEST).read_bytes())
            if is_ours(manifest["model"]["modelVersion"]):
                path.unlink()


def version(model: Model, model_path: Path) -> str:
    """Return a version that changes with the archive's content and with the weights' files."""
    content = f"{_render_config(model, model_path)}{list_states(model_path)}"
    return f"1.0-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def is_ours(version: str) -> bool:
    """Whether this is a version of archives written here. Other models are an operator's."""
    return _VERSION.fullmatch(version) is not None


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
        # TorchServe assigns the workers to them in rotation.
        config["deviceIds"] = list(map(int, model.devices))
    return yaml.safe_dump(config, sort_keys=False)
