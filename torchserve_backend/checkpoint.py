"""The model that the map or `MODEL=` names, a directory or a hub name, made ready to be
served: downloaded where it has to be, checked, converted once.
"""

from __future__ import annotations

import os
from pathlib import Path

from handlers.engine.m2m100 import check_directory
from torchserve_backend.catalog import ROOT, Model


def default_cache() -> Path:
    """Where downloads and conversions are kept: `BABELGATE_CACHE`, else the user's cache."""
    default = (
        Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "babelgate"
    )
    # TorchServe's workers run in another directory and get paths in here to load.
    return Path(os.environ.get("BABELGATE_CACHE", default)).absolute()


def fetch(name: str, cache: Path) -> Path:
    """The directory of a model: `name` itself where it is one (relative names start at the
    repository), else the download of that hub name, resumed where it broke off.

    Raises ModelError where it is neither, or is not an M2M100.
    """
    directory = ROOT / Path(name).expanduser()
    if not directory.exists():
        from torchserve_backend import hub

        directory = hub.download(name, cache / "hub")
    check_directory(directory)
    return directory.resolve()


def prepare(model: Model, cache: Path) -> Path:
    """The directory that the model's engine loads."""
    directory = fetch(model.settings.model, cache)
    if model.settings.engine != "ctranslate2":
        return directory
    from handlers.engine import conversion

    return conversion.convert(directory, cache / "ctranslate2", model.compute_type)
