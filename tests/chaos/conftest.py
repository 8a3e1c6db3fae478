"""One stack, one chaos, one report for all tests of this folder."""

from __future__ import annotations

import json
import os
import secrets
import time

import pytest

from tests.chaos import experiment
from tests.chaos.experiment import Report
from tests.e2e.real_stack import start_stack

#: One worker for two languages, so that it is quickly there again.
MAP = {
    "cuda_id": {"fr": "cpu", "de": "cpu"},
    "translation": {
        "model": "models/phrasebook",
        "placement": "device",
        "max_batch_delay": 20,
    },
}


@pytest.fixture(scope="session")
def report(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Report:
    """The schedule of `CHAOS_SEED`, or of a seed that is drawn and shown."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    _show(pytestconfig, f"\nCHAOS_SEED={seed}")
    map_path = tmp_path_factory.mktemp("map") / "map.json"
    map_path.write_text(json.dumps(MAP))
    cache = tmp_path_factory.mktemp("cache")
    run = tmp_path_factory.mktemp("run")
    began = time.monotonic()
    with start_stack(run, cache, "--map", str(map_path)) as stack:
        return experiment.run(stack, cache, seed, time.monotonic() - began)


def _show(config: pytest.Config, line: str) -> None:
    """On the terminal, whatever becomes of the test."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        config.get_terminal_writer().line(line)
