"""Makes ready what TorchServe is to run: the weights of every model, and its archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from catalog import Catalog, Model, checkpoint
from handlers.engine.directories import Digests
from torchserve_backend import archiver
from torchserve_backend.registrar import Desired


def list_desired(models: Catalog, *, are_read: bool = False) -> list[Desired]:
    """The state that the registrar is to reach. Downloads and converts missing models. With
    `are_read` it checks conversions against their checksums, and repeats damaged ones.

    Raises ModelError if there is no such model.
    """
    paths = prepare_weights(models, are_read=are_read)
    return [_describe(model, paths[model.name]) for model in models.models]


def prepare_weights(models: Catalog, *, are_read: bool = False) -> Mapping[str, Path]:
    """The directory that each model's engine loads, by the model's name; as `list_desired`."""
    cache = checkpoint.default_cache()
    digests = Digests() if are_read else None
    paths: dict[tuple[str, ...], Path] = {}
    for model in models.models:
        if _name_weights(model) not in paths:
            path = checkpoint.prepare(model, cache, digests)
            paths[_name_weights(model)] = path
    return {model.name: paths[_name_weights(model)] for model in models.models}


def write_archives(desired: Iterable[Desired], store: Path) -> None:
    """Writes the archive of every model."""
    for entry in desired:
        archiver.archive(entry.model, store, entry.model_path)


def _name_weights(model: Model) -> tuple[str, ...]:
    """Name the directory that a model's engine loads: languages share one."""
    settings = model.settings
    return (
        *(model.task, settings.model, settings.engine, model.compute_type),
        *model.listed,
    )


def _describe(model: Model, model_path: Path) -> Desired:
    return Desired(
        model,
        archive=archiver.archive_name(model),
        version=archiver.version(model, model_path),
        model_path=model_path,
    )
