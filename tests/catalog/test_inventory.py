"""Models are listed, pulled and verified by `python -m catalog models`, with a fake hub."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import catalog
from catalog.__main__ import app
from catalog.inventory import find_license
from handlers.engine.directories import SOURCE_FILE
from tests.catalog.fake_hub import COMMIT, FakeHub, Fault, ask_hub

NAME = "test/small"
WEIGHTS = "model.safetensors"
PHRASEBOOK = catalog.ROOT / "models" / "phrasebook"
#: `huggingface_hub` writes downloads in pieces of this size.
PIECE = 10 * 1024 * 1024
FILES = {
    "config.json": '{"model_type": "m2m_100"}',
    "vocab.json": "{}",
    "sentencepiece.bpe.model": "pieces",
    "babelgate.json": '{"languages": ["en", "ko"]}',
    WEIGHTS: "weights" * 1000,
}
NOWHERE = "http://127.0.0.1:9"


@dataclass
class Shelf:
    """A machine with a map, a cache and a hub."""

    hub: FakeHub
    cache: Path
    map: Path

    @property
    def downloaded(self) -> Path:
        return self.cache / "hub" / NAME

    def run(self, *command: str, expect: int = 0, hub: str = "") -> str:
        """Run a command that must end with this exit code, and return its output."""
        command = ("models", *command, "--map", str(self.map))
        with ask_hub(hub or self.hub.url):
            ran = CliRunner().invoke(app, command)
        assert ran.exit_code == expect, ran.output
        return ran.output


@pytest.fixture
def shelf(tmp_path: Path, write_map: Callable[..., Path]) -> Iterator[Shelf]:
    """A shelf whose map has a model that needs no conversion."""
    model = tmp_path / "small"
    model.mkdir()
    for name, content in FILES.items():
        (model / name).write_text(content)
    hub = FakeHub({NAME: model}, card={"license": "cc-by-nc-4.0"})
    map_path = write_map({"ko": "cpu"}, engine="echo", model=NAME)
    with hub.serve():
        yield Shelf(hub, tmp_path / "cache", map_path)


def test_a_list_says_what_the_map_needs_and_what_else_is_there(shelf: Shelf):
    other = shelf.cache / "hub" / "test" / "other"
    other.mkdir(parents=True)
    assert f"{NAME}: not here" in shelf.run("list", hub=NOWHERE)
    shelf.run("pull")

    listed = json.loads(shelf.run("list", "--json", hub=NOWHERE))
    (needed,) = listed["needed"]
    size = sum(path.stat().st_size for path in shelf.downloaded.iterdir())
    digest = needed.pop("digest")
    assert needed == {
        "name": NAME,
        "serves": ["ko"],
        "directory": str(shelf.downloaded),
        "size": size,
        "license": "cc-by-nc-4.0",
        "commit": needed["commit"],
        "family": "m2m_100",
        "languages": ["en", "ko"],
        "converted": [],
        "files": {p.name: p.stat().st_size for p in shelf.downloaded.iterdir()},
    }
    assert listed["others"] == [str(other)]
    row = next(each for each in shelf.run("list").splitlines() if "cc-by" in each)
    assert row.split()[-3:] == ["cc-by-nc-4.0", digest[:12], "2"]

    assert json.loads(shelf.run("show", NAME)) == needed | {"digest": digest}


def test_a_pull_says_the_licence_and_the_gateway_knows_it(shelf: Shelf):
    (model,) = catalog.load(shelf.map).models
    assert find_license(model) is None
    shelf.hub.card["license"] = ["cc-by-nc-4.0", "mit"]
    said = shelf.run("pull")
    assert f"{NAME}: its model card states the licence cc-by-nc-4.0, mit" in said
    assert find_license(model) == "cc-by-nc-4.0, mit"


@pytest.mark.slow
def test_a_hub_name_is_downloaded_and_converted_once_and_then_needs_no_hub(
    shelf, write_map
):
    shelf.hub.repositories[NAME] = PHRASEBOOK
    shelf.map = write_map({"ko": "cpu"}, model=NAME)
    shelf.run("pull")
    calls = list(shelf.hub.calls)
    assert calls[0] == f"/api/models/{NAME}"
    assert len(calls) == len(set(calls)), "something was asked for twice"
    useful = {p.name for p in PHRASEBOOK.iterdir()} - {"README.md", "training.json"}
    assert {p.name for p in shelf.downloaded.iterdir()} == useful | {SOURCE_FILE}
    (converted,) = shelf.cache.glob("ctranslate2/small-*/int8")
    assert (converted / "model.bin").stat().st_size > 1_000_000

    shelf.run("pull", hub=NOWHERE)
    shelf.run("verify", hub=NOWHERE)
    assert shelf.hub.calls == calls


@pytest.fixture
def large(shelf: Shelf) -> Shelf:
    """A shelf whose weights arrive in several pieces, the first time incompletely."""
    weights = shelf.hub.repositories[NAME] / WEIGHTS
    weights.write_bytes(bytes(PIECE + 2000))
    shelf.hub.faults[WEIGHTS] = [Fault(ends_at=PIECE + 1000)]
    return shelf


def test_a_connection_that_breaks_is_taken_up_again(large: Shelf):
    large.run("pull")
    assert large.hub.sent(WEIGHTS) == ["", f"bytes={PIECE}-"]
    large.run("verify")


def test_a_download_that_the_hub_gives_up_is_gone_on_with_by_the_next_command(large):
    hub = large.hub
    hub.faults[WEIGHTS].append(Fault(status=503))
    said = large.run("pull", expect=1)
    assert f"{NAME}: {hub.url} answered 503. The partial download is kept" in said
    folder = large.downloaded.with_name(f"small-{COMMIT}.part")
    assert (folder / f"{WEIGHTS}.part").stat().st_size == PIECE
    large.run("verify", expect=1)

    hub.calls.clear()
    large.run("pull")
    assert hub.sent(WEIGHTS) == [f"bytes={PIECE}-"]
    assert not [call for call in hub.calls if call.endswith("/vocab.json")]
    large.run("verify", hub=NOWHERE)


@pytest.mark.parametrize(
    ("file", "fault", "said"),
    [
        ("vocab.json", Fault(is_damaged=True), "arrived damaged"),
        (WEIGHTS, Fault(is_damaged=True), "arrived damaged"),
        (WEIGHTS, Fault(rest=b"a page"), "but has size"),
    ],
    ids=["small", "large", "too long"],
)
def test_a_file_that_arrives_damaged_is_thrown_away(shelf, file, fault, said):
    shelf.hub.faults = {file: [fault]}
    assert said in shelf.run("pull", expect=1)
    shelf.run("pull")
    shelf.run("verify")


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        ("vocab.json", "[]", "has different content"),
        (WEIGHTS, "weights", "has 7 bytes, not 7000"),
        (WEIGHTS, None, "is missing"),
    ],
    ids=["other", "short", "gone"],
)
def test_a_damaged_file_is_named_and_pulled_again_alone(shelf, file, content, fault):
    shelf.run("pull")
    path = shelf.downloaded / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    said = shelf.run("verify", NAME, expect=1, hub=NOWHERE)
    assert f"{NAME}: {path} {fault}" in said
    assert f"`python -m catalog models pull {NAME}` repairs it" in said

    shelf.hub.calls.clear()
    shelf.run("pull", NAME)
    sent = {Path(call.split()[0]).name for call in shelf.hub.calls}
    assert sent == {file, Path(NAME).name}
    assert path.read_text() == FILES[file]
    shelf.run("verify", NAME)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("bundle", "/nowhere/models.tar"), "No such file or directory"),
        (("verify", "test/nothing"), "is missing"),
    ],
    ids=["no folder", "not there"],
)
def test_what_cannot_be_done_is_said_clearly(shelf: Shelf, command, said: str):
    assert said in shelf.run(*command, expect=1)


def test_a_full_disk_is_said_clearly(shelf: Shelf, monkeypatch, full_disk):
    monkeypatch.setattr("catalog.hub.http_get", full_disk)
    said = shelf.run("pull", expect=1)
    assert "No space left on device. The partial download is kept" in said


def test_a_hub_that_cannot_be_reached_is_said_clearly(shelf: Shelf):
    assert shelf.run("pull", expect=1, hub=NOWHERE).strip() == (
        f"{NAME}: {NOWHERE} cannot be reached ([Errno 111] Connection refused). "
        "Give a directory's path instead, or set HF_ENDPOINT to a mirror."
    )
    assert not shelf.downloaded.exists()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((404, b""), "neither a directory nor a model visible on"),
        ((401, b"{}"), "needs HF_TOKEN"),
        ((500, b"oops"), "answered 500. Give a directory's path instead"),
        ((200, b"<html>Log in first</html>"), "is not a hub"),
        ((200, b'{"login": "first"}'), "is not a hub: 'id'"),
    ],
    ids=["unknown", "hidden", "broken", "not a hub", "another API"],
)
def test_a_hub_that_does_not_give_the_model_is_said_clearly(shelf, answer, expected):
    shelf.hub.instead = answer
    said = shelf.run("pull", expect=1).strip()
    assert said.startswith(f"{NAME}: ")
    assert expected in said


def test_a_model_of_another_kind_is_refused_before_its_weights_are_loaded(shelf):
    for name in ("sentencepiece.bpe.model", "vocab.json"):
        (shelf.hub.repositories[NAME] / name).unlink()
    said = shelf.run("pull", expect=1)
    lacks = "it lacks sentencepiece.bpe.model, vocab.json"
    assert f"{NAME} on {shelf.hub.url} is not a model for translation: {lacks}" in said
    assert shelf.hub.calls == [f"/api/models/{NAME}"]


def test_a_model_of_an_earlier_version_has_no_record_and_stays(shelf: Shelf):
    shelf.run("pull")
    (shelf.downloaded / SOURCE_FILE).unlink()
    assert "there is no record of its own files" in shelf.run("verify")
    shelf.run("pull", hub=NOWHERE)
