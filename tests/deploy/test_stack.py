"""The small files that describe the running stack: complete, or treated as absent."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from deploy import stack
from deploy.stack import Stack, StackError
from tests.test_architecture import PACKAGES, read_files


@pytest.mark.parametrize("torn", ["", '{"map": ', "[1]"])
def test_a_torn_file_is_absent(tmp_path: Path, torn: str):
    (tmp_path / "stack.json").write_text(torn)
    assert stack.read_object(tmp_path / "stack.json") == {}
    assert stack.read(tmp_path) is None


def test_counters_are_in_memory_where_nobody_else_has_the_name(tmp_path, monkeypatch):
    monkeypatch.setattr(stack, "_MEMORY", tmp_path)
    one, other = (Stack(tmp_path / name, tmp_path) for name in ("one", "other"))
    assert one.metrics.parent == other.metrics.parent == tmp_path
    assert one.metrics != other.metrics
    one.metrics.mkdir()
    assert one.metrics.parent == tmp_path
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    mine = tmp_path / one.metrics.name
    assert mine == one.metrics
    mine.mkdir()
    assert one.metrics == tmp_path / "one/metrics"


def test_a_run_directory_is_short_enough_for_sockets(tmp_path: Path):
    name = "a" * (107 - len(f"{tmp_path}//torchserve/tmp/.ts.sock.9100"))
    Stack(tmp_path / name, tmp_path).check_writable()
    too_long = Stack(tmp_path / f"{name}a", tmp_path)
    with pytest.raises(StackError, match="1 bytes too long"):
        too_long.check_writable()
    replace(too_long, backend="ray").check_writable()
    with pytest.raises(StackError, match="1 bytes too long"):
        replace(
            too_long, run=tmp_path / f"{name}aaaaaa", backend="ray"
        ).check_writable()
    (tmp_path / "file").touch()
    unwritable = replace(too_long, run=tmp_path / "file" / name)
    with pytest.raises(StackError, match="cannot be written"):
        unwritable.check_writable()


def test_a_stack_is_read_as_it_was_written(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("BABELGATE_MODEL", "of the caller")
    assert Stack(tmp_path, tmp_path).environment()["BABELGATE_MODEL"] == ""
    written = Stack(tmp_path, tmp_path / "map.json", "model", 3000, "c,k")
    written.write("{}")
    assert stack.read(tmp_path) == written
    assert written.url.startswith("https://")
    assert written.frozen_map.read_text() == "{}"
    assert stat.S_IMODE((tmp_path / "stack.json").stat().st_mode) == 0o600


def test_the_version_changes_with_every_package_that_a_program_imports():
    files = read_files(*stack._PACKAGES)
    imported = {name.partition(".")[0] for file in files for name in file.needs}
    assert imported & {*PACKAGES} <= {*stack._PACKAGES}


def test_the_version_changes_with_the_words_that_programs_read(tmp_path, monkeypatch):
    monkeypatch.setattr(stack, "ROOT", tmp_path)
    (tmp_path / "text").mkdir()
    before = stack.find_version()
    (tmp_path / "text/words.txt").write_text("hello")
    assert stack.find_version() != before
