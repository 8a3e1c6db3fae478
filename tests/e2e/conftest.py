"""One real stack for all tests of this folder, with all 14 languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.stack import ROOT, Stack
from tests.e2e.real_stack import run_deploy, start_stack

ALL_TASKS = ROOT / "torchserve_backend/all_tasks.json"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Stack]:
    """All 14 languages of the repository's own map and model."""
    yield from start_stack(tmp_path_factory.mktemp("run"), cache)


@pytest.fixture(scope="session")
def vision(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Stack]:
    """Every task, as the map of all of them has it."""
    run = tmp_path_factory.mktemp("vision")
    yield from start_stack(run, cache, "--map", str(ALL_TASKS))


@pytest.fixture(scope="session")
def url(stack: Stack) -> str:
    return stack.url


@pytest.fixture
def deploy(stack: Stack, cache: Path) -> Callable[..., str]:
    """Runs one of the operator's commands on the stack and returns what it said."""

    def run(command: str, *, expect: int = 0) -> str:
        done = run_deploy(command, "--run-dir", str(stack.run), cache=cache)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
