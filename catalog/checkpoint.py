"""Finds the model that the map or `MODEL=` names, or makes it ready: downloads it if
necessary, checks it and converts it once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from catalog import ROOT, Catalog, Model
from contract import variables
from contract.languages import M2M100
from contract.tasks import TRANSLATION
from handlers.engine.directories import (
    Digests,
    InputSize,
    ModelError,
    check_directory,
    read_input_size,
    read_object,
    read_settings,
)

#: The files in which a tokenizer lists its languages, and one of them as it stands there.
_TOKEN_FILES = ("tokenizer_config.json", "special_tokens_map.json")
_TOKEN = re.compile('"__([a-z]{2,3})__"')
#: The key that says which list of languages a tokenizer has, and the only one that is served.
_CODES, _M2M100 = "language_codes", "m2m100"


def default_cache() -> Path:
    """Return the folder of downloads and conversions: `BABELGATE_CACHE`, else the user's
    cache."""
    default = Path(
        os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "babelgate"
    )
    # TorchServe's workers run in another directory and get paths in here to load.
    return Path(variables.CACHE.read() or default).absolute()


def locate(name: str, cache: Path) -> Path:
    """Return the directory of a model, now or after its download: `name` itself if that is
    a directory (relative names start at the repository), else a hub's name in the cache."""
    directory = ROOT / Path(name).expanduser()
    return directory if directory.exists() else cache / "hub" / name


def find_input_size(model: Model) -> InputSize | None:
    """The size of the images that a model reads; None if it is not here yet or does not
    say."""
    with suppress(ModelError, OSError):
        return read_input_size(locate(model.settings.model, default_cache()))
    return None


def find_sources(models: Catalog) -> Sequence[str]:
    """The languages that can be translated from: those that the model knows, or all of
    M2M100's where it is not here yet."""
    return list_languages(locate(models.translation.model, default_cache()))


def list_languages(directory: Path) -> Sequence[str]:
    """List the languages that a model knows: those in its `babelgate.json`, else those for
    which its tokenizer has a token such as `__nl__`, else all of M2M100's."""
    listed: Sequence[str] | None = read_settings(directory).get("languages")
    if listed:
        return listed
    files = [file for name in _TOKEN_FILES if (file := directory / name).is_file()]
    tokens = {
        code for file in files for code in _TOKEN.findall(file.read_text("utf-8"))
    }
    return [code for code in M2M100 if code in tokens] or M2M100


def check_languages(model: Model, directory: Path) -> None:
    """Raises ModelError if the map serves a language that the model in the directory does not
    know: it would answer all the same. So would one whose language tokens have another order
    than M2M100's."""
    file = directory / _TOKEN_FILES[0]
    codes = read_object(file).get(_CODES, _M2M100) if file.is_file() else _M2M100
    if codes != _M2M100:
        raise ModelError(f"{file}: {_CODES} is {codes!r}, expected {_M2M100!r}")
    known = list_languages(directory)
    if unknown := [code for code in model.languages if code not in known]:
        raise ModelError(
            f"cuda_id: {model.settings.model} does not know {' '.join(unknown)}, "
            f"expected some of {' '.join(known)}"
        )


def fetch(name: str, cache: Path, task: str = TRANSLATION) -> Path:
    """The directory of a model. A hub's name is downloaded; a broken download continues.

    Raises ModelError if it is neither, or not a model for the task.
    """
    directory = locate(name, cache)
    if not directory.exists():
        from catalog import hub

        hub.download(name, cache / "hub", task)
    check_directory(directory, task)
    return directory.resolve()


def prepare(model: Model, cache: Path, digests: Digests | None = None) -> Path:
    """The directory that the model's engine loads. With `digests` a conversion is checked
    against its checksums first, and repeated if it is damaged. Raises ModelError."""
    directory = fetch(model.settings.model, cache, model.task)
    check_languages(model, directory)
    if model.settings.engine != "ctranslate2":
        return directory
    from handlers.engine.translation import conversion

    return conversion.convert(
        directory,
        cache / "ctranslate2",
        model.compute_type,
        languages=model.listed,
        digests=digests,
    )
