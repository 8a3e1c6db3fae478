"""A model is named, downloaded from a fake hub, gone on with, checked and converted."""

from __future__ import annotations

import filecmp
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contract.languages import LANGUAGES
from handlers.engine.directories import SETTINGS_FILE, ModelError
from tests.e2e.real_stack import wait_until
from tests.torchserve_backend.fake_hub import COMMIT, FakeHub, Fault
from torchserve_backend import catalog, checkpoint

pytestmark = pytest.mark.slow

NAME = "test/phrasebook"
PHRASEBOOK = catalog.ROOT / "models" / "phrasebook"
WEIGHTS = "model.safetensors"
#: `huggingface_hub` writes what has arrived in pieces of this size.
PIECE = 10 * 1024 * 1024
ALMOST_ALL = (PHRASEBOOK / WEIGHTS).stat().st_size - 1000
START_S = 120


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    fake = FakeHub({NAME: PHRASEBOOK})
    with fake.serve():
        yield fake


@pytest.fixture
def environment(hub: FakeHub, tmp_path: Path) -> dict[str, str]:
    """What leads the command line to the fake hub and to a cache of its own."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COLUMNS": "1000",
        "CUDA_VISIBLE_DEVICES": "",
        "BABELGATE_CACHE": str(tmp_path / "cache"),
        "HF_ENDPOINT": hub.url,
    }


@pytest.fixture
def command(tmp_path: Path, write_map: Callable[..., Path]) -> list[str]:
    """`archive` for a model that needs no conversion."""
    map_path = write_map({"ko": "cpu"}, engine="transformers")
    store = tmp_path / "store"
    options = ["--map", str(map_path), "--model", NAME, "--store", str(store)]
    return [sys.executable, "-m", "torchserve_backend", "archive", *options]


@pytest.fixture
def downloaded(tmp_path: Path) -> Path:
    """Where the model lies when all of it has arrived."""
    return tmp_path / "cache" / "hub" / NAME


@pytest.fixture
def weights_part(downloaded: Path) -> Path:
    """What there is of the weights before."""
    return downloaded.with_name(f"phrasebook-{COMMIT}.part") / f"{WEIGHTS}.part"


def run(
    command: list[str], environment: dict[str, str], *, expect: int = 0
) -> tuple[str, str]:
    """What a command that must end with this exit code has said."""
    done = subprocess.run(
        command,
        cwd=catalog.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=START_S,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def is_whole(directory: Path) -> bool:
    """Whether a directory holds exactly those of the phrasebook's files that are of use."""
    useful = {p.name for p in PHRASEBOOK.iterdir()} - {"README.md", "training.json"}
    same, *_ = filecmp.cmpfiles(PHRASEBOOK, directory, useful, shallow=False)
    return set(same) == useful == {path.name for path in directory.iterdir()}


def test_a_hub_name_is_downloaded_once_and_then_needs_no_hub(
    hub: FakeHub, command: list[str], environment: dict[str, str], downloaded: Path
):
    run(command, environment)
    assert is_whole(downloaded)
    assert hub.calls[0] == f"/api/models/{NAME}"
    assert len(hub.calls) == len(set(hub.calls)), "something was asked for twice"

    gone = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    asked = len(hub.calls)
    run(command, environment | gone)
    assert len(hub.calls) == asked


def test_a_downloaded_model_is_converted_and_archived_for_every_language(
    environment: dict[str, str], tmp_path: Path
):
    store = tmp_path / "store"
    archive = [sys.executable, "-m", "torchserve_backend", "archive", "--model", NAME]
    run([*archive, "--store", str(store)], environment)
    assert len(list(store.glob("*.mar"))) == 14
    (converted,) = (tmp_path / "cache" / "ctranslate2").glob("phrasebook-*/int8")
    assert (converted / "model.bin").stat().st_size > 1_000_000


def test_a_connection_that_breaks_is_taken_up_again(
    hub: FakeHub, command: list[str], environment: dict[str, str], downloaded: Path
):
    hub.faults[WEIGHTS] = [Fault(ends_at=ALMOST_ALL)]
    run(command, environment)
    assert hub.sent(WEIGHTS) == ["", f"bytes={PIECE}-"]
    assert is_whole(downloaded)


def test_a_download_that_the_hub_gives_up_is_gone_on_with_by_the_next_command(
    hub: FakeHub,
    command: list[str],
    environment: dict[str, str],
    downloaded: Path,
    weights_part: Path,
):
    hub.faults[WEIGHTS] = [Fault(ends_at=ALMOST_ALL), Fault(status=503)]
    said, _ = run(command, environment, expect=1)
    assert f"{NAME}: {hub.url} answered 503. What has arrived is kept" in said
    assert weights_part.stat().st_size == PIECE
    assert not downloaded.exists()

    hub.calls.clear()
    run(command, environment)
    assert hub.sent(WEIGHTS) == [f"bytes={PIECE}-"]
    assert not [call for call in hub.calls if call.endswith("/vocab.json")]
    assert is_whole(downloaded)


def test_a_download_that_was_killed_is_gone_on_with(
    hub: FakeHub,
    command: list[str],
    environment: dict[str, str],
    downloaded: Path,
    weights_part: Path,
):
    hub.faults[WEIGHTS] = [Fault(ends_at=ALMOST_ALL, is_silent=True)]
    with subprocess.Popen(
        command, cwd=catalog.ROOT, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        wait_until(
            lambda: weights_part.exists() and weights_part.stat().st_size == PIECE
        )
        process.kill()
    assert not downloaded.exists()

    run(command, environment)
    assert hub.sent(WEIGHTS) == ["", f"bytes={PIECE}-"]
    assert is_whole(downloaded)


def test_weights_that_arrive_damaged_are_thrown_away(
    hub: FakeHub, command: list[str], environment: dict[str, str], downloaded: Path
):
    hub.faults[WEIGHTS] = [Fault(is_damaged=True)]
    said, _ = run(command, environment, expect=1)
    assert f"{NAME}: {WEIGHTS} arrived damaged and is thrown away" in said
    run(command, environment)
    assert hub.sent(WEIGHTS) == ["", ""]
    assert is_whole(downloaded)


def test_a_hub_that_cannot_be_reached_is_said_clearly(
    command: list[str], environment: dict[str, str], downloaded: Path
):
    nowhere = "http://127.0.0.1:9"
    said, logged = run(command, environment | {"HF_ENDPOINT": nowhere}, expect=1)
    assert said.strip() == (
        f"{NAME}: {nowhere} cannot be reached ([Errno 111] Connection refused). "
        "Give a directory's path instead, or set HF_ENDPOINT to a mirror."
    )
    assert logged == ""
    assert not downloaded.exists()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((404, b""), "neither a directory nor a model that"),
        ((401, b"{}"), "needs HF_TOKEN"),
        ((500, b"oops"), "answered 500. Give a directory's path instead"),
        ((200, b"<html>Log in first</html>"), "is no hub"),
    ],
    ids=["unknown", "hidden", "broken", "not a hub"],
)
def test_a_hub_that_does_not_give_the_model_is_said_clearly(
    hub: FakeHub,
    command: list[str],
    environment: dict[str, str],
    answer: tuple[int, bytes],
    expected: str,
):
    hub.instead = answer
    said, _ = run(command, environment, expect=1)
    assert said.startswith(f"{NAME}: ")
    assert expected in said


def test_a_model_of_another_kind_is_refused_before_its_weights_are_loaded(
    hub: FakeHub, command: list[str], environment: dict[str, str], tmp_path: Path
):
    other = hub.repositories[NAME] = tmp_path / "bert"
    other.mkdir()
    for file in ("config.json", "vocab.txt", WEIGHTS):
        (other / file).write_text("{}")
    said, _ = run(command, environment, expect=1)
    lacks = "it lacks sentencepiece.bpe.model, vocab.json"
    assert f"{NAME} on {hub.url} is no model for translation: {lacks}" in said
    assert hub.calls == [f"/api/models/{NAME}"]


def test_a_terminal_shows_how_far_the_download_is(
    command: list[str], environment: dict[str, str]
):
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 120))
    with subprocess.Popen(
        command, cwd=catalog.ROOT, env=environment, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        shown = b"".join(iter(lambda: read_terminal(controller), b""))
    os.close(controller)
    assert process.returncode == 0
    assert b"model.safetensors: 100%" in shown
    assert b"MB/s" in shown


def read_terminal(controller: int) -> bytes:
    """What a terminal shows next; nothing when its last program has closed it."""
    try:
        return os.read(controller, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize(
    "name",
    ["models/nothing/here", "./nothing", "/nothing", "nothing", "..", "a/..", "a b/c"],
)
def test_what_is_neither_a_directory_nor_a_hub_name_is_refused(
    name: str, tmp_path: Path
):
    with pytest.raises(ModelError, match="not a hub name either|is no model"):
        checkpoint.fetch(name, tmp_path)


def test_a_relative_cache_is_found_from_torchserves_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BABELGATE_CACHE", "here")
    assert checkpoint.default_cache() == tmp_path / "here"


def test_a_directory_is_taken_as_it_is(tmp_path: Path):
    assert checkpoint.fetch("models/phrasebook", tmp_path) == PHRASEBOOK
    assert checkpoint.fetch(str(PHRASEBOOK), tmp_path) == PHRASEBOOK
    assert not list(tmp_path.iterdir())


def test_a_models_languages_are_found_wherever_it_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, write_map: Callable[..., Path]
):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path))
    models = catalog.load(write_map(model=NAME))
    assert checkpoint.find_sources(models) == LANGUAGES
    downloaded = tmp_path / "hub" / NAME
    downloaded.mkdir(parents=True)
    (downloaded / SETTINGS_FILE).write_text('{"languages": ["en", "fr"]}')
    assert checkpoint.find_sources(models) == ["en", "fr"]
    here = catalog.load(write_map(model="models/phrasebook"))
    assert set(checkpoint.find_sources(here)) < set(LANGUAGES)
