"""Converts a Hugging Face directory for CTranslate2, once."""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from contract import durable
from handlers.engine.directories import (
    CONVERTED,
    SEAL_FILE,
    SETTINGS_FILE,
    Digests,
    ModelError,
    check_directory,
    find_damage,
    list_states,
    read_object,
    read_settings,
    seal,
)
from handlers.engine.translation.engine import Sentence
from handlers.engine.translation.families import find_family, list_languages
from handlers.engine.translation.tokenizer import EOS, UNKNOWN, list_pieces, write_list

log = logging.getLogger(__name__)

#: Part of every cache key. Raise it when the converter or its options change.
_VERSION = 2
#: Longer than any conversion takes.
_DAY_S = 86_400


def converted_path(directory: Path, cache: Path, compute_type: str) -> Path:
    """Return the path of the conversion of `directory`. The name depends on its files' sizes
    and times, so a changed model is converted again. A bundle's directory contains the
    conversion, which CTranslate2 can load even if its precision differs."""
    bundled = directory / CONVERTED
    made = sorted(path.name for path in bundled.glob("*") if "-" not in path.name)
    if made:
        return bundled / (compute_type if compute_type in made else made[0])
    given = _VERSION, str(directory.resolve()), list_states(directory)
    digest = hashlib.sha256(repr(given).encode()).hexdigest()
    return cache / f"{directory.name}-{digest[:12]}" / compute_type


def convert(
    directory: Path,
    cache: Path,
    compute_type: str,
    *,
    languages: Sequence[str] = (),
    digests: Digests | None = None,
) -> Path:
    """Convert `directory`, unless a conversion exists, and return the path of the conversion.

    It has all files that `CTranslate2Engine` needs and is created atomically. A damaged one is
    replaced; the check compares file sizes and, with `digests`, content. With `languages`, only
    their output vocabulary is allowed. Raises ModelError if `directory` belongs to no known
    family or is damaged.
    """
    check_directory(directory, "translation")
    out = converted_path(directory, cache, compute_type)
    if out.is_relative_to(directory) and (fault := find_damage(out, digests)):
        raise ModelError(f"{out} is damaged ({fault}): run `make up BUNDLE=…` again")

    def write(part: Path) -> None:
        _make_converter(directory).convert(str(part), quantization=compute_type)
        _add_files(directory, part)

    try:
        _remove_left(cache)
        _make_directory(out, write, digests)
        return _restrict(out, languages, digests) if languages else out
    except Exception as error:
        # A truncated file, weights of another size, a full disk: there are many classes.
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ModelError(f"{directory} cannot be converted: {reason}") from error


def _restrict(whole: Path, languages: Sequence[str], digests: Digests | None) -> Path:
    """Copy a conversion and add an output vocabulary. Its files are hard links, so all
    languages share one copy on disk and in memory."""
    name = " ".join((str(_VERSION), *sorted(languages)))
    digest = hashlib.sha256(name.encode()).hexdigest()
    out = whole.with_name(f"{whole.name}-{digest[:8]}")

    def write(part: Path) -> None:
        part.mkdir()
        for file in whole.iterdir():
            if file.name != SEAL_FILE:
                os.link(file, part / file.name)
        vocabulary = json.loads((whole / "shared_vocabulary.json").read_text("utf-8"))
        tokenizer = find_family(whole).load_tokenizer(whole)
        given = [tokenizer.list_prefix(Sentence("", tag, tag)) for tag in languages]
        write_list(part, [*list_pieces(vocabulary, languages), *chain(*given)])

    _make_directory(out, write, digests)
    return out


def _remove_left(cache: Path) -> None:
    """Remove the files of killed conversions."""
    for left in cache.glob("*/converting-*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _DAY_S:
                shutil.rmtree(left, ignore_errors=True)


def _make_directory(
    out: Path, write: Callable[[Path], None], digests: Digests | None
) -> None:
    """Create and seal a directory that `write` fills, unless an undamaged one exists."""
    if out.exists():
        fault = find_damage(out, digests)
        if not fault:
            return
        log.warning("%s is damaged (%s): converting the model again", out, fault)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix="converting-") as folder:
        part = Path(folder) / "model"
        write(part)
        seal(part, digests or Digests())
        if out.exists() and find_damage(out, digests):
            # A process that has its files open can still read them.
            durable.rename(out, part.with_name("damaged"))
        try:
            durable.rename(part, out)
        except OSError:
            # If another process was faster, keep its directory.
            if find_damage(out, digests):
                raise


def _add_files(directory: Path, part: Path) -> None:
    """Add the files that the engine needs besides the weights."""
    family = find_family(directory)
    for name in chain(*family.files):
        shutil.copy(directory / name, part / name)
    settings = {
        "max_tokens": family.read_max_tokens(directory),
        **read_settings(directory),
        "family": family.name,
        **list_languages(directory)._asdict(),
    }
    (part / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n")


def _make_converter(directory: Path) -> Any:
    """Return CTranslate2's converter with our tokenizer, because those of Transformers 5 no
    longer list their tokens where the converter expects them."""
    from ctranslate2.converters.transformers import TransformersConverter
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    config = read_object(directory / "config.json")
    ids = find_family(directory).load_tokenizer(directory).ids
    tokens = {i: token for token, i in ids.items() if i < config["vocab_size"]}
    names = [tokens.get(i, f"madeupword{i}") for i in range(max(tokens) + 1)]

    class Converter(TransformersConverter):  # type: ignore[misc]
        def load_model(self, *arguments: Any, **options: Any) -> Any:
            model = super().load_model(*arguments, **options)
            # CTranslate2 scales the outputs of a T5 if its embeddings are tied; since
            # Transformers 5, every T5's configuration claims that.
            is_scaled = getattr(model.config, "scale_decoder_outputs", None)
            if is_scaled is not None:
                model.config.tie_word_embeddings = is_scaled
            return model

        def load_tokenizer(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(
                get_vocab=lambda: {token: i for i, token in enumerate(names)},
                special_tokens_map={},
                bos_token="<s>",
                eos_token=EOS,
                unk_token=UNKNOWN,
                pad_token=names[config.get("pad_token_id", 0)],
                convert_ids_to_tokens=names.__getitem__,
            )

    return Converter(str(directory))
