"""The stacks that a worker's tests share, one per map. Each file leaves them as they were."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from deploy.stack import ROOT, Stack
from tests.e2e.real_stack import (
    is_ready,
    list_glossaries,
    operate,
    start_stack,
    wait_until,
)
from tests.e2e.reverse_proxy import ReverseProxy, reset
from tests.leaks import SHARED

ALL_TASKS = ROOT / "torchserve_backend/all_tasks.json"
#: The running shared stacks of this worker.
_shared: list[Stack] = []


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def stack(tmp_path_factory, cache, pytestconfig) -> Stack:
    """A stack with the repository's own map and model: all 14 languages."""
    run = tmp_path_factory.mktemp("50% of a run")
    return _share(pytestconfig, start_stack(run, cache))


@pytest.fixture(scope="session")
def vision(tmp_path_factory, cache, pytestconfig) -> Stack:
    """A stack with every task, by the map of all tasks."""
    run = tmp_path_factory.mktemp("vision")
    return _share(pytestconfig, start_stack(run, cache, "--map", str(ALL_TASKS)))


def _share(config: pytest.Config, starting: AbstractContextManager[Stack]) -> Stack:
    shared = config.stash[SHARED]
    stack = shared.enter_context(starting)
    _shared.append(stack)
    shared.callback(_shared.remove, stack)
    return stack


@pytest.fixture(scope="module", autouse=True)
def clean_stacks() -> Iterator[None]:
    """Check that the tests of a file leave the shared stacks ready and without their data."""
    yield
    for stack in _shared:
        wait_until(lambda stack=stack: is_ready(stack.url))  # type: ignore[misc]
        assert list_glossaries(stack.url) == []
        unfinished = stack.run / "documents/unfinished"
        assert not unfinished.exists() or list(unfinished.iterdir()) == []


@pytest.fixture(scope="session")
def url(stack: Stack) -> str:
    return stack.url


@pytest.fixture
def deploy(stack: Stack, cache: Path) -> Callable[..., str]:
    """A function that runs an operator's command on the stack and returns its output."""
    return partial(operate, stack.run, cache)


@pytest.fixture
def proxy(started: ReverseProxy) -> ReverseProxy:
    """The module's proxy, with its fake TorchServe reset."""
    reset(started.torchserve)
    return started
