"""Converts a Hugging Face M2M100 directory for CTranslate2, once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from safetensors import SafetensorError

from contract import durable
from contract.languages import M2M100
from handlers.engine.directories import (
    SETTINGS_FILE,
    TOKENIZER_FILES,
    Digests,
    ModelError,
    check_directory,
    find_damage,
    read_settings,
    seal,
    unseal,
)
from handlers.engine.translation.m2m100 import language_token, list_pieces, write_list

log = logging.getLogger(__name__)

#: Part of every cache key. Raise it when the converter or its options change.
_VERSION = 1
#: No conversion takes so long.
_DAY_S = 86_400


def converted_path(directory: Path, cache: Path, compute_type: str) -> Path:
    """Return the path of the conversion of `directory`. The name depends on its files'
    sizes and times, so a changed model is converted again."""
    state = [
        (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(directory.iterdir())
    ]
    digest = hashlib.sha256(
        repr((_VERSION, str(directory.resolve()), state)).encode()
    ).hexdigest()
    return cache / f"{directory.name}-{digest[:12]}" / compute_type


def convert(
    directory: Path,
    cache: Path,
    compute_type: str,
    *,
    languages: Sequence[str] = (),
    digests: Digests | None = None,
) -> Path:
    """Converts `directory` unless that was done before, and returns the result's path.

    The result holds all that `CTranslate2Engine` needs. It appears whole or not at all, and a
    damaged one is made again. The check compares file sizes, and with `digests` their
    content. With `languages` only their output vocabulary is allowed.
    Raises ModelError if `directory` is not an M2M100, or is damaged.
    """
    check_directory(directory, "translation")
    out = converted_path(directory, cache, compute_type)

    def write(part: Path) -> None:
        _make_converter(directory).convert(str(part), quantization=compute_type)
        _add_files(directory, part)

    try:
        _remove_left(cache)
        _make_directory(out, write, digests)
        return _restrict(out, languages, digests) if languages else out
    except (
        *(OSError, ValueError, LookupError, RuntimeError),
        *(SafetensorError, UnpicklingError),
    ) as error:
        # A truncated file, weights that do not fit the configuration, or a full disk.
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{directory} cannot be converted: {reason}") from error


def _restrict(whole: Path, languages: Sequence[str], digests: Digests | None) -> Path:
    """The same conversion with an output vocabulary. Its files are hard links, so all
    languages share one copy on disk and in memory."""
    name = " ".join((str(_VERSION), *sorted(languages)))
    digest = hashlib.sha256(name.encode()).hexdigest()
    out = whole.with_name(f"{whole.name}-{digest[:8]}")

    def write(part: Path) -> None:
        part.mkdir()
        for file in whole.iterdir():
            os.link(file, part / file.name)
        unseal(part)
        vocabulary = json.loads((whole / "shared_vocabulary.json").read_text("utf-8"))
        write_list(part, list_pieces(vocabulary, languages))

    _make_directory(out, write, digests)
    return out


def _remove_left(cache: Path) -> None:
    """Removes what killed conversions have left."""
    for left in cache.glob("*/converting-*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _DAY_S:
                shutil.rmtree(left, ignore_errors=True)


def _make_directory(
    out: Path, write: Callable[[Path], None], digests: Digests | None
) -> None:
    """Has `write` fill a directory, unless a whole one is there, and seals it."""
    if out.exists():
        fault = find_damage(out, digests)
        if not fault:
            return
        log.warning("%s is damaged (%s): the model is converted anew", out, fault)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix="converting-") as folder:
        part = Path(folder) / "model"
        write(part)
        seal(part, digests or Digests())
        if out.exists() and find_damage(out, digests):
            # A process that has its files open keeps them.
            durable.rename(out, part.with_name("damaged"))
        try:
            durable.rename(part, out)
        except OSError:
            # If another process was quicker, its result stays.
            if find_damage(out, digests):
                raise


def _add_files(directory: Path, part: Path) -> None:
    """Adds what the engine needs besides the weights."""
    for name in TOKENIZER_FILES:
        shutil.copy(directory / name, part / name)
    limit = json.loads((directory / "config.json").read_text("utf-8"))[
        "max_position_embeddings"
    ]
    settings = {"max_tokens": limit, **read_settings(directory)}
    (part / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n")


def _make_converter(directory: Path) -> Any:
    """CTranslate2's converter with the vocabulary from the files, because Transformers 5 no
    longer lists the language tokens where CTranslate2's loader looks for them."""
    from ctranslate2.converters import transformers as ct2
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()

    class Loader(ct2.M2M100Loader):  # type: ignore[misc]
        def get_vocabulary(self, model: Any, tokenizer: Any) -> list[str]:
            ids = json.loads((directory / "vocab.json").read_text("utf-8"))
            tokens = sorted(ids, key=ids.__getitem__)
            tokens += map(language_token, M2M100)
            unused = range(model.config.vocab_size - len(tokens))
            return [*tokens, *(f"madeupword{i}" for i in unused)]

    ct2.register_loader("M2M100Config")(Loader)
    return ct2.TransformersConverter(str(directory))
