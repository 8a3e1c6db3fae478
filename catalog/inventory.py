"""The checkpoints that the map needs, with their directories, licences, languages, conversions
and damaged files, and the rest of the cache.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog import CPU, Catalog, Model, TranslationSection, checkpoint
from catalog.devices import count_gpus
from contract.tasks import TRANSLATION
from handlers.engine.directories import (
    SOURCE_FILE,
    Digests,
    ModelError,
    compare_files,
    digest_files,
    find_damage,
    read_object,
)


@dataclass(frozen=True)
class Checkpoint:
    """A model's files, and the models of the map that load it."""

    name: str
    cache: Path
    models: tuple[Model, ...]

    @property
    def directory(self) -> Path:
        """Its directory, now or after its download."""
        return checkpoint.locate(self.name, self.cache)

    @property
    def source(self) -> dict[str, Any]:
        """The record of its download or bundle."""
        return read_source(self.directory)

    @property
    def digest(self) -> str:
        """The SHA-256 of its files' names and digests, recorded or computed."""
        recorded = self.source.get("files", {})
        files = {name: wanted["sha256"] for name, wanted in recorded.items()}
        content = json.dumps(files or digest_files(self.directory), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def list_conversions(self) -> list[Path]:
        """Return the finished conversions, including those with an output vocabulary."""
        if self.models[0].task != TRANSLATION or not self.directory.is_dir():
            return []
        from handlers.engine.translation.conversion import converted_path

        cache = self.cache / "ctranslate2"
        any_one = converted_path(self.directory.resolve(), cache, "int8")
        # Unfinished ones are named `converting-…`.
        found = any_one.parent.glob("[!c]*")
        return sorted(path for path in found if path.is_dir())

    def describe(self) -> dict[str, Any]:
        """Return its details with all its files; sizes are in bytes."""
        place = self.directory
        serves = [n for m in self.models for n in m.serves]
        found: dict[str, Any] = {"name": self.name, "serves": serves}
        if not place.is_dir():
            return found | {"directory": None}
        files = sorted(path for path in place.rglob("*") if path.is_file())
        sizes = {str(path.relative_to(place)): path.stat().st_size for path in files}
        is_translation = self.models[0].task == TRANSLATION
        languages = checkpoint.find_languages(place).targets if is_translation else ()
        return found | {
            "directory": str(place),
            "size": sum(sizes.values()),
            "license": self.source.get("license"),
            "commit": self.source.get("commit"),
            "digest": self.digest,
            "family": read_object(place / "config.json").get("model_type"),
            "languages": list(languages),
            "converted": [path.name for path in self.list_conversions()],
            "files": sizes,
        }

    def list_damage(self, digests: Digests) -> Iterator[str]:
        """Yield each file of the download and the conversions that differs from its record.
        Raises OSError."""
        if not self.directory.is_dir():
            yield f"{self.directory} is missing"
        recorded = self.source.get("files", {})
        for name, fault in compare_files(self.directory, recorded, digests):
            yield f"{self.directory / name} {fault}"
        for path in self.list_conversions():
            if fault := find_damage(path, digests):
                yield f"{path}: {fault}"

    def pull(self) -> None:
        """Get missing and damaged files, and convert for each model. Raises ModelError."""
        from catalog import hub

        digests, source = Digests(), self.source
        if "commit" in source and not source.get("bundled"):
            recorded = compare_files(self.directory, source["files"], digests)
            if damaged := [name for name, _ in recorded]:
                hub.take_back(self.directory, source["commit"], damaged)
        for model in self.models:
            checkpoint.prepare(model, self.cache, digests)


def list_needed(models: Catalog, cache: Path) -> dict[str, Checkpoint]:
    """Return the checkpoints of the map, each once, by name."""
    loading: dict[str, list[Model]] = {}
    for model in models.models:
        loading.setdefault(model.settings.model, []).append(model)
    return {name: Checkpoint(name, cache, tuple(m)) for name, m in loading.items()}


def make_checkpoint(name: str, cache: Path) -> Checkpoint:
    """Make a checkpoint for translation that is not in the map."""
    devices = ("0",) if count_gpus() else (CPU,)
    settings = TranslationSection(model=name)
    return Checkpoint(name, cache, (Model(name, TRANSLATION, (), devices, settings),))


def list_others(needed: Iterable[Checkpoint], cache: Path) -> list[Path]:
    """Return the folders in the cache that the map does not need: other models, complete or
    incomplete, and conversions."""
    used = {path for c in needed for path in (c.directory, *c.list_conversions())}
    return sorted({*cache.glob("hub/*/*/"), *cache.glob("ctranslate2/*/*/")} - used)


def read_source(directory: Path) -> dict[str, Any]:
    """Return the record of a download or bundle, empty if it has none. Raises ModelError."""
    return read_object(directory / SOURCE_FILE)


def find_license(model: Model) -> str | None:
    """Return the licence that the card of a model's weights states, if there is a record."""
    place = checkpoint.locate(model.settings.model, checkpoint.default_cache())
    with suppress(ModelError, OSError):
        return read_source(place).get("license")
    return None
