"""A map's models are packed, and unpacked without a network into another cache."""

import hashlib
import io
import json
import lzma
import random
import tarfile
from pathlib import Path

import pytest

import catalog
from catalog import bundle, checkpoint
from catalog.inventory import Checkpoint, list_needed
from handlers.engine.directories import CONVERTED, Digests, ModelError
from handlers.engine.translation.ctranslate2 import CTranslate2Engine

MAP = {
    "cuda_id": {"fr": "cpu"},
    "classification": {"model": "models/shapes/classification", "devices": "cpu"},
}
MODEL = b'{"a": 1}'


def load(map_path: Path, cache: Path) -> list[Checkpoint]:
    return [*list_needed(catalog.load(map_path), cache).values()]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the demonstration models."""
    folder = tmp_path_factory.mktemp("packed")
    map_path, out = folder / "map.json", folder / "models.tar"
    map_path.write_text(json.dumps(MAP))
    needed = load(map_path, folder / "cache")
    for each in needed:
        each.pull()
    for file in (out, folder / "again.tar", folder / "1.tar.gz", folder / "2.tgz"):
        bundle.pack(file, map_path, None, needed)
    return out


def list_members(file: Path) -> list[str]:
    with tarfile.open(file) as archive:
        return archive.getnames()


def find_state(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def test_the_same_models_make_the_same_bundle_without_weights(packed: Path):
    assert packed.read_bytes() == packed.with_name("again.tar").read_bytes()
    small = packed.with_name("1.tar.gz")
    assert small.read_bytes() == packed.with_name("2.tgz").read_bytes()
    assert small.stat().st_size < packed.stat().st_size
    assert list_members(small) == list_members(packed)
    names = list_members(packed)
    assert {"constraints.txt", "map.json"} < {*names}
    weights = [name for name in names if name.endswith((".safetensors", "model.bin"))]
    assert [Path(name).parts[-3:] for name in weights] == [
        (CONVERTED, "int8", "model.bin"),
        (*Path(weights[1]).parts[1:3], "model.safetensors"),
    ]


def test_a_machine_without_a_network_serves_what_the_bundle_brings(packed, tmp_path):
    cache = tmp_path / "elsewhere"
    map_path = bundle.unpack(packed, cache)
    translation, images = load(map_path, cache)
    assert translation.name.endswith("-phrasebook")  # a Marian's may end with `-en-fr`
    assert "fr" in checkpoint.find_languages(translation.directory).targets
    prepared = checkpoint.prepare(translation.models[0], cache, Digests())
    assert prepared == translation.directory / CONVERTED / "int8"
    CTranslate2Engine(prepared)
    assert checkpoint.prepare(images.models[0], cache) == images.directory
    assert not [*translation.list_damage(Digests()), *images.list_damage(Digests())]
    assert not (cache / "ctranslate2").exists()

    before = find_state(cache / "hub")
    assert bundle.unpack(packed, cache) == map_path
    assert find_state(cache / "hub") == before


def test_another_precision_takes_the_bundled_one_and_another_engine_is_refused(
    packed, tmp_path, write_map
):
    name = load(bundle.unpack(packed, tmp_path), tmp_path)[0].name

    def prepare(**settings: str) -> Path:
        path = write_map({"fr": "cpu"}, model=name, **settings)
        return checkpoint.prepare(catalog.load(path).models[0], tmp_path)

    assert prepare(compute_type="float32").name == "int8"
    assert prepare(vocabulary="language").name.startswith("int8-")
    assert prepare(compute_type="float32").name == "int8"
    with pytest.raises(ModelError, match="comes from a bundle, for CTranslate2 only"):
        prepare(engine="transformers")


def test_a_bundle_that_was_cut_short_changes_nothing_and_the_whole_one_works(
    packed, tmp_path
):
    cut = tmp_path / packed.name
    cut.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    cache = tmp_path / "cache"
    with pytest.raises(ModelError, match="models.tar cannot be unpacked: "):
        bundle.unpack(cut, cache)
    assert not (cache / "hub").exists()
    bundle.unpack(packed, cache)
    assert [path.suffix for path in (cache / "bundles").iterdir()] == [".json"]


def test_a_model_in_a_folder_named_as_a_key_of_the_map(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "ROOT", tmp_path)
    model = catalog.ROOT / "models/shapes/classification"
    (tmp_path / "classification").symlink_to(model)
    map_path, file, cache = (tmp_path / n for n in ("map.json", "a.tar", "cache"))
    section = MAP["classification"] | {"model": "classification"}
    map_path.write_text(json.dumps({"classification": section}))
    bundle.pack(file, map_path, None, load(map_path, cache))
    (found,) = load(bundle.unpack(file, cache), cache)
    assert found.directory.is_dir()


@pytest.mark.parametrize("languages", [("en", "fr"), ("fr", "en")])
def test_a_bundle_with_another_model_names_only_what_it_brings(
    tmp_path, write_map, languages
):
    out, cache = tmp_path / "a.tar", tmp_path / "cache"
    own = {"model": "models/phrasebook-en-fr", "fallback": "models/phrasebook"}
    devices = dict.fromkeys(languages, "cpu")
    map_path = write_map(devices, engine="transformers", targets={"fr": own})
    other = tmp_path / "other"  # an absolute path
    other.symlink_to(catalog.ROOT / "models/phrasebook")
    needed = list_needed(catalog.load(map_path, model=str(other)), cache)
    bundle.pack(out, map_path, str(other), needed.values())
    names = [each.name for each in load(bundle.unpack(out, cache), cache)]
    assert len(names) == 2
    assert all((cache / "hub" / name).is_dir() for name in names)


def test_a_damaged_model_is_named_and_mended_by_its_bundle(packed, tmp_path):
    (translation, _) = load(bundle.unpack(packed, tmp_path), tmp_path)
    path = translation.directory / CONVERTED / "int8" / "model.bin"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(
        ModelError, match="different content.: run `make up BUNDLE=…` again"
    ):
        checkpoint.prepare(translation.models[0], tmp_path, Digests())
    assert f"{path} has different content" in translation.list_damage(Digests())
    bundle.unpack(packed, tmp_path)
    assert not list(translation.list_damage(Digests()))


def test_a_machines_own_model_of_the_same_name_stays(tmp_path: Path):
    own = tmp_path / "hub/a/b/config.json"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    bundle.unpack(write_bundle(tmp_path / "theirs.tar"), tmp_path)
    assert own.read_text() == "mine"


CONFIG = "hub/a/b/config.json"
SOURCE = "hub/a/b/source.json"


def write_bundle(path: Path, *, files=None, members=None, link: bytes = b"") -> Path:
    """Write a bundle by hand: `files` change its record and `members` its content; with `link`,
    the config is a link of this type."""
    described = {"size": len(MODEL), "sha256": hashlib.sha256(MODEL).hexdigest()}
    recorded = {"config.json": described, **(files or {})}
    source = json.dumps({"bundled": True, "files": recorded}).encode()
    content = {CONFIG: MODEL, SOURCE: source, "map.json": b"{}", **(members or {})}
    with tarfile.open(path, "w") as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            if link and name == CONFIG:
                member.type, member.linkname, member.size = link, "/etc/passwd", 0
            archive.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"members": {"../x": b""}}, "outside the destination"),
        ({"members": {"hub/a/b/../../../../x": b""}}, "outside the destination"),
        ({"members": {"/etc/x": b""}}, "/etc/x is not a file"),
        ({"members": {"\u00e9\0": b""}}, "null byte"),
        ({"link": tarfile.SYMTYPE}, "config.json is not a file"),
        ({"link": tarfile.LNKTYPE}, "config.json is not a file"),
        ({"link": tarfile.FIFOTYPE}, "config.json is not a file"),
        ({"members": {CONFIG: b'{"a": 2}'}}, "b/config.json has different content"),
        ({"members": {CONFIG: MODEL * 2}}, "b/config.json has 16 bytes, not 8"),
        ({"members": {"hub/a/b/x": b""}}, "b/x is not in its record"),
        ({"files": {"x": {"size": 1, "sha256": "0"}}}, "b/x is missing"),
        ({"files": {"config.json": 1}}, "not subscriptable"),
        ({"members": {SOURCE: b"{"}}, "source.json is not JSON"),
        ({"members": {SOURCE: b"[]"}}, "'files'"),
        ({"members": {SOURCE: b"[" * 100_000}}, "recursion"),
    ],
    ids="""out out-again absolute zero symbolic-link hard-link pipe other-content longer
        too-much too-little no-record-of-a-file torn-record no-record deep""".split(),
)
def test_a_hostile_bundle_changes_nothing(tmp_path: Path, changes, said: str):
    file = write_bundle(tmp_path / "hostile.tar", **changes)
    with pytest.raises(ModelError, match=f"hostile.tar cannot be unpacked: .*{said}"):
        bundle.unpack(file, tmp_path / "cache")
    assert {path.name for path in tmp_path.iterdir()} == {"hostile.tar", "cache"}
    assert not (tmp_path / "cache" / "hub").exists()


def test_a_bundle_with_damaged_compression_is_named(tmp_path: Path):
    members = {"more": random.Random(1).randbytes(1 << 19).hex().encode()}
    file = write_bundle(tmp_path / "x.tar", members=members)
    data = lzma.compress(file.read_bytes())
    file.write_bytes(data[:-9999] + bytes(99) + data[-9900:])
    with pytest.raises(ModelError, match="x.tar cannot be unpacked: Corrupt"):
        bundle.unpack(file, tmp_path)
