"""`python -m torchserve_backend`: what each command says, does and exits with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from typer.testing import CliRunner

import catalog
from handlers.engine.directories import TOKENIZER_FILES, read_settings
from tests.torchserve_backend.fakes import FakeManagement, runs
from torchserve_backend import __main__ as command_line

PHRASEBOOK = catalog.ROOT / "models/phrasebook"
WriteMap = Callable[..., Path]


class Ran(NamedTuple):
    """The end of a command and its output, without colours."""

    exit_code: int
    stdout: str


def run(*arguments: object) -> Ran:
    result = CliRunner().invoke(command_line.app, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return Ran(result.exit_code, click.unstyle(result.stdout))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A directory with the files of an M2M100, as far as anybody looks without loading it."""
    directory = tmp_path / "m2m"
    directory.mkdir()
    for name in (*TOKENIZER_FILES, "model.safetensors"):
        (directory / name).touch()
    (directory / "config.json").write_text('{"model_type": "m2m_100"}')
    return directory


@pytest.fixture
def map_path(write_map: WriteMap, model: Path) -> Path:
    """Korean and French on the reference engine, which needs no conversion."""
    return write_map(engine="transformers", model=str(model))


@pytest.fixture
def torchserve(monkeypatch: pytest.MonkeyPatch) -> FakeManagement:
    """The TorchServe that every command asks."""
    fake = FakeManagement()
    monkeypatch.setattr(command_line, "Management", lambda *_: fake)
    return fake


@pytest.fixture
def archived(
    map_path: Path, tmp_path: Path, torchserve: FakeManagement
) -> dict[str, str]:
    """The archives that `archive` writes into the fake's store, and their versions."""
    said = run("archive", "--map", map_path, "--store", tmp_path / "store").stdout
    pairs = [line.split() for line in said.splitlines() if ".mar " in line]
    torchserve.store = {Path(path).name: version for path, version in pairs}
    return torchserve.store


def test_check_shows_languages_together_with_all_their_workers(monkeypatch, write_map):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    devices = {"ko": ["0", "1"], "en": "cpu", "fr": ["1", "0"]}
    result = run("check", "--map", write_map(devices, placement="device", workers=3))
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "ko fr 0,1 ctranslate2 float16 6 64 100 4096" in rows
    assert "en cpu ctranslate2 int8 3 64 100 4096" in rows


def test_tables_fit_a_terminal_and_say_all(monkeypatch, write_map):
    monkeypatch.setenv("COLUMNS", "80")
    devices = dict.fromkeys(read_settings(PHRASEBOOK)["languages"], "cpu")
    lines = run("check", "--map", write_map(devices, placement="device")).stdout
    assert max(map(len, lines.splitlines())) <= 80
    assert {*devices, "ctranslate2"} <= {*lines.split()}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "cuda_id: models/phrasebook does not know nl, expected some of en ko zh"),
        ({"model": "facebook/not-here-yet"}, None),
    ],
    ids=["lacking", "unknown yet"],
)
def test_check_refuses_a_language_that_the_model_lacks(write_map, settings, said):
    result = run("check", "--map", write_map({"ko": "cpu", "nl": "cpu"}, **settings))
    assert result.exit_code == (1 if said else 0)
    assert (said or "nl") in result.stdout


@pytest.mark.parametrize("command", ["check", "archive", "register", "status"])
def test_a_wrong_map_is_explained_on_one_line(monkeypatch, write_map, command):
    monkeypatch.setenv("COLUMNS", "40")
    path = write_map({"[/ko]": "0"})
    result = run(command, "--map", path)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(
        f"{path}: cuda_id.[/ko]: expected a language of contract/languages.tsv"
    )


def test_archive_writes_one_archive_per_language(map_path, tmp_path, archived):
    assert archived.keys() == {"ko.mar", "fr.mar"}
    assert {path.name for path in (tmp_path / "store").iterdir()} == archived.keys()
    again = run("archive", "--map", map_path, "--store", tmp_path / "store")
    assert all(version in again.stdout for version in archived.values())


def test_archive_writes_nothing_where_it_is_not_to_or_has_no_model(
    map_path, tmp_path, monkeypatch
):
    monkeypatch.setenv("BABELGATE_MAP", str(map_path))
    store, absent = tmp_path / "store", tmp_path / "absent"
    result = run("archive", "--store", store, "--dry-run")
    assert result.exit_code == 0
    assert f"would write {store / 'ko.mar'}" in result.stdout
    result = run("archive", "--model", absent, "--store", store)
    assert result.exit_code == 1
    assert f"{absent}: no such directory" in result.stdout
    assert not store.exists()


def test_register_brings_torchserve_to_what_the_map_says(
    map_path, torchserve, archived
):
    first = run("register", "--map", map_path)
    assert first.exit_code == 0
    assert "register ko: not registered\nregister fr: not registered" in first.stdout
    assert "2/2" in first.stdout
    assert torchserve.found.keys() == {"ko", "fr"}
    torchserve.calls.clear()
    second = run("register", "--map", map_path)
    assert second.exit_code == 0
    assert "nothing to do: TorchServe runs what the map says" in second.stdout
    assert torchserve.calls == []


def test_register_only_says_what_it_would_do(map_path, torchserve):
    torchserve.found["fr"] = runs("fr", "1.0-old")
    result = run("register", "--map", map_path, "--dry-run", "--watch")
    assert result.exit_code == 0
    assert "register ko: not registered\nreplace fr: runs 1.0-old" in result.stdout
    assert torchserve.calls == []


@pytest.mark.parametrize("command", ["register", "status"])
def test_a_torchserve_that_is_down_is_explained(map_path: Path, command: str):
    result = run(command, "--map", map_path, "--url", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9 does not answer" in result.stdout


def test_register_gives_up_after_the_time_it_was_given(map_path, torchserve, archived):
    for name in ("ko", "fr"):
        torchserve.found[name] = runs(name, archived[f"{name}.mar"], ready_workers=0)
    result = run("register", "--map", map_path, "--timeout-s", "-1")
    assert result.exit_code == 1
    assert "fr, ko" in result.stdout


@pytest.mark.parametrize(
    ("workers", "exit_code", "said"),
    [
        pytest.param(1, 0, "1/1", id="ready"),
        pytest.param(0, 1, "0/1", id="starting"),
        pytest.param(None, 1, "not registered", id="not registered"),
    ],
)
def test_status_shows_every_language_and_exits_with_1_unless_all_are_ready(
    map_path, torchserve, workers, exit_code, said
):
    torchserve.found["fr"] = runs("fr")
    if workers is not None:
        torchserve.found["ko"] = runs("ko", ready_workers=workers)
    result = run("status", "--map", map_path)
    assert result.exit_code == exit_code
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("ko ")]
    assert said in row
