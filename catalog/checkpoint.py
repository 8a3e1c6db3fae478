"""Finds and prepares the model that the map or `MODEL=` names: downloads it if necessary,
checks it and converts it once.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from catalog import ROOT, Catalog, Model
from contract import variables
from contract.languages import LANGUAGES
from contract.tasks import TRANSLATION
from handlers.engine.directories import (
    CONVERTED,
    Digests,
    InputSize,
    ModelError,
    check_directory,
    read_input_size,
)
from handlers.engine.translation.families import Languages, list_languages
from handlers.engine.translation.families.m2m100 import CODES
from handlers.engine.translation.families.marian import list_side


def default_cache() -> Path:
    """Return the cache of downloads and conversions: `BABELGATE_CACHE`, else the user's."""
    if not (cache := variables.CACHE.read()):
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        cache = f"{home}/babelgate"
    # Programs that load paths in here run in different directories.
    return ROOT / cache


def locate(name: str, cache: Path) -> Path:
    """Return the directory of a model, now or after its download: `name` itself if that is
    a directory (relative names start at the repository), else a hub's name in the cache."""
    directory = ROOT / os.path.expanduser(name)  # leaves unknown users' names
    return directory if directory.exists() else cache / "hub" / name


def find_input_size(model: Model) -> InputSize | None:
    """Return the size of a model's images; None if it is not downloaded or states none."""
    with suppress(ModelError, OSError):
        return read_input_size(locate(model.settings.model, default_cache()))
    return None


def find_languages(name: str | Path) -> Languages:
    """Return the languages that a model reads and writes, by its name or directory. Before its
    download they are those in its name, or all possible ones. Raises ModelError if its files
    do not state them."""
    directory = locate(str(name), default_cache())
    if directory.exists():
        return list_languages(directory)
    if directory.name.startswith("opus-mt-"):
        with suppress(ModelError):  # other names have groups of languages
            return Languages(*(list_side(directory, s) for s in ("source", "target")))
    tags = tuple(CODES if "m2m100" in str(name).lower() else LANGUAGES)
    return Languages(tags, tags)


def find_sources(models: Catalog) -> Sequence[str]:
    """Return the source languages: all those that a model reads."""
    reads = models.reads or find_reads(models)
    known = dict.fromkeys(chain.from_iterable(reads.values()))
    return [*known] or find_languages(models.translation.model).sources


def find_reads(models: Catalog) -> Mapping[str, Collection[str]]:
    """Return the languages that each translation model reads, by the model's name."""
    named = {m.name: m.settings.model for m in models.models if m.languages}
    read = {n: dict.fromkeys(find_languages(n).sources) for n in {*named.values()}}
    return {model: read[name] for model, name in named.items()}


def check_languages(model: Model, directory: Path) -> None:
    """Raise ModelError if the map serves a language that the directory's model cannot write:
    it would answer nonetheless."""
    known = find_languages(directory).targets
    if unknown := [code for code in model.languages if code not in known]:
        raise ModelError(
            f"cuda_id: {model.settings.model} does not know {' '.join(unknown)}, "
            f"expected some of {' '.join(known)}"
        )


def fetch(name: str, cache: Path, task: str = TRANSLATION) -> Path:
    """Return the directory of a model, by its path or hub name. A missing model is downloaded
    from the hub; an interrupted download resumes. Raises ModelError if the name is neither, or
    the model is not for the task."""
    directory = locate(name, cache)
    if not directory.exists():
        from catalog import hub

        hub.download(name, cache / "hub", task)
    check_directory(directory, task)
    return directory.resolve()


def prepare(model: Model, cache: Path, digests: Digests | None = None) -> Path:
    """Return the directory that the model's engine loads. With `digests` a conversion is first
    checked against its checksums, and repeated if damaged. Raises ModelError."""
    directory = fetch(model.settings.model, cache, model.task)
    if model.languages:
        check_languages(model, directory)
    if model.settings.engine != "ctranslate2":
        if model.settings.engine == "transformers" and (directory / CONVERTED).exists():
            raise ModelError(f"{directory} comes from a bundle, for CTranslate2 only")
        return directory
    from handlers.engine.translation import conversion

    return conversion.convert(
        directory,
        cache / "ctranslate2",
        model.compute_type,
        languages=model.listed,
        digests=digests,
    )
