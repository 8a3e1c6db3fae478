"""Packs the models of a map into one file for a machine without a network, and unpacks it
there. No model is moved into place before its digests have been checked.
"""

import gzip
import json
import re
import shutil
import tarfile
from collections.abc import Iterable
from contextlib import nullcontext
from io import SEEK_END, BytesIO
from pathlib import Path

from catalog import ROOT, SECTIONS, TranslationSection
from catalog.inventory import Checkpoint, read_source
from catalog.map import read_file
from contract import durable
from contract.tasks import TRANSLATION
from handlers.engine.directories import (
    CONVERTED,
    SOURCE_FILE,
    Digests,
    ModelError,
    compare_files,
    describe_files,
    list_files,
    list_weights,
)

_MAP, _CONSTRAINTS = "map.json", "constraints.txt"


def pack(
    out: Path, map_path: Path, model: str | None, needed: Iterable[Checkpoint]
) -> None:
    """Write a bundle of the map's pulled checkpoints; `model` replaces the map's translation
    model. The same checkpoints make identical bundles. Raises OSError or CatalogError."""
    digests = Digests()
    content = read_file(map_path)
    if model and "cuda_id" in content:
        own = TranslationSection.model_validate(content.get(TRANSLATION, {}))
        content[TRANSLATION] = own.replace_model(model).model_dump(exclude_unset=True)
    members: dict[str, Path | bytes] = {_CONSTRAINTS: ROOT / _CONSTRAINTS}
    for each in needed:
        name = _name(each)
        files = _list_files(each)
        task = each.models[0].task
        members |= {f"hub/{name}/{file}": path for file, path in files.items()}
        described = describe_files(files, digests)
        record = each.source | {"bundled": True, "files": described}
        members[f"hub/{name}/{SOURCE_FILE}"] = json.dumps(record, indent=2).encode()
        # Write out the model that is this machine's default.
        section = content.setdefault(task, {})
        section.setdefault("model", SECTIONS[task].model_fields["model"].default)
        old, new = (f": {json.dumps(value)}" for value in (each.name, name))
        content = json.loads(json.dumps(content).replace(old, new))
    members[_MAP] = json.dumps(content, ensure_ascii=False, indent=2).encode()
    with durable.create(out) as file:
        is_small = out.suffix in (".gz", ".tgz")
        packed = gzip.GzipFile("", "wb", 6, file, 0) if is_small else nullcontext(file)
        with packed as target, tarfile.open(fileobj=target, mode="w|") as archive:
            for name, source in members.items():
                _add(archive, tarfile.TarInfo(name), source)


def unpack(file: Path, cache: Path) -> Path:
    """Unpack a bundle into the cache and return the path of its map. Existing models stay if
    they are intact, or if this machine has pulled them. Raises ModelError."""
    map_path = cache / "bundles" / f"{file.name}.json"
    part = map_path.with_suffix(".part")
    try:
        map_path.parent.mkdir(parents=True, exist_ok=True)
        # Other processes that unpack the same bundle wait here.
        with durable.create(map_path) as target:
            shutil.rmtree(part, ignore_errors=True)
            _extract(file, part)
            models = [path.relative_to(part) for path in part.glob("hub/*/*")]
            for model in models:
                _check_model(part / model)
            for model in models:
                _place(part / model, cache / model)
            target.write((part / _MAP).read_bytes())
            shutil.rmtree(part)
    except Exception as error:  # the file and its records may have any content
        raise ModelError(f"{file} cannot be unpacked: {error}") from error
    return map_path


def _name(each: Checkpoint) -> str:
    """Return its name in the bundle's map: the hub's, or a new one for a directory."""
    is_path = Path(each.name).is_absolute()
    if each.directory == each.cache / "hub" / each.name and not is_path:
        return each.name
    word = re.sub("[^A-Za-z0-9._-]+", "-", each.directory.name).strip("-.")
    return f"bundled/{each.digest[:8]}-{word or 'model'}"  # `-en-fr` stays at the end


def _list_files(each: Checkpoint) -> dict[str, Path]:
    """Return a checkpoint's files by name, without weights if only CTranslate2 runs it."""
    from catalog.hub import SMALL_FILES
    from handlers.engine.translation.conversion import converted_path

    directory = each.directory.resolve()
    is_converted = {m.settings.engine for m in each.models} == {"ctranslate2"}
    names = list_files(directory)
    kept = {*SMALL_FILES, *(() if is_converted else list_weights(names))}
    files = {name: directory / name for name in sorted(kept.intersection(names))}
    for model in each.models if is_converted else ():
        cache = each.cache / "ctranslate2"
        whole = converted_path(directory, cache, model.compute_type)
        for path in sorted(whole.iterdir()):
            files[f"{CONVERTED}/{whole.name}/{path.name}"] = path
    return files


def _add(
    archive: tarfile.TarFile, member: tarfile.TarInfo, content: Path | bytes
) -> None:
    """Add a file without owner and time, so that equal bundles are identical."""
    file = content.open("rb") if isinstance(content, Path) else BytesIO(content)
    with file as source:
        member.size = source.seek(0, SEEK_END)
        source.seek(0)
        archive.addfile(member, source)


def _extract(file: Path, folder: Path) -> None:
    """Extract only files, none outside the folder; Debian 12's Python has no tar filters."""
    with tarfile.open(file) as archive:
        for member in archive:
            name, target = member.name, (folder / member.name).resolve()
            source = archive.extractfile(member) if member.isreg() else None
            if source is None or name.startswith("/"):
                raise ModelError(f"{name} is not a file in a folder")
            if not target.is_relative_to(folder.resolve()):
                raise ModelError(f"{name} is outside the destination")
            target.parent.mkdir(parents=True, exist_ok=True)
            with source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy)


def _check_model(directory: Path) -> None:
    """Raise ModelError unless its files match its record."""
    files = read_source(directory)["files"]
    for name, fault in compare_files(directory, files, Digests()):
        raise ModelError(f"{directory.name}/{name} {fault}")
    for path in directory.rglob("*"):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and name not in {*files, SOURCE_FILE}:
            raise ModelError(f"{directory.name}/{name} is not in its record")
        durable.sync(path)


def _place(source: Path, target: Path) -> None:
    """Move a model into place, unless it is there or this machine has pulled one. An older
    model from a bundle is replaced."""
    record, known = read_source(source), read_source(target)
    is_own = target.is_dir() and not known.get("bundled")
    damage = compare_files(target, record["files"], Digests())
    if is_own or (known == record and not any(damage)):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        durable.rename(target, source.with_name(f".{source.name}.older"))
    durable.rename(source, target)
