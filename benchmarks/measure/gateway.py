"""The CPU that one gateway process spends on a request, before a TorchServe that answers at
once: `python -m benchmarks dialects` with the fields of other APIs, `keys` where keys are
required.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.driver import take_turns
from benchmarks.instruments.generator import Request, Target
from benchmarks.instruments.load import LoadFigures, measure_closed
from benchmarks.instruments.running import Running, start_gateway, write_map
from benchmarks.instruments.workload import draw, write_request
from benchmarks.report import ADDED, Columns, FigureGoal, Findings, compare_turns
from deploy.stack import ROOT
from handlers.engine.translation.m2m100 import Sentence

#: The targets: milliseconds of CPU that another API, and a key, add to a request.
DIALECT_MS, KEY_MS = 0.1, 0.2
OURS, OFF, REQUIRED = "ours", "off", "required"
CPU_MS = "gateway's CPU ms"
_LANGUAGE, _SENTENCES = "fr", 500
#: Limits of a key that nobody reaches: each is looked at.
_GRANT = ("--characters-per-month", "1000000000000", "--requests-per-minute", "1000000")
#: Each API's path, and the fields that ask for a sentence's translation.
DIALECTS: Mapping[str, tuple[str, Callable[[Sentence], dict[str, Any]]]] = {
    OURS: (
        "/translate",
        lambda s: {"src_lang": s.source, "src_text": s.text, "tgt_lang": s.target},
    ),
    "LibreTranslate": (
        "/translate",
        lambda s: {"source": s.source, "q": s.text, "target": s.target},
    ),
    "DeepL": (
        "/v2/translate",
        lambda s: {"source_lang": s.source, "text": [s.text], "target_lang": s.target},
    ),
    "Google": (
        "/language/translate/v2",
        lambda s: {
            "source": s.source,
            "q": s.text,
            "target": s.target,
            "format": "text",
        },
    ),
}


def compare_dialects(*, clients: int, seconds: float, rounds: int) -> Findings:
    """The gateway's CPU per request in each API, in turns."""
    with TemporaryDirectory() as name, _start(Path(name), {}) as running:
        targets = {api: running.aim(write_requests(api)) for api in DIALECTS}
        return _compare(targets, clients, seconds, rounds, limit_ms=DIALECT_MS)


def compare_keys(
    *, clients: int, seconds: float, rounds: int, database_url: str, limits_url: str
) -> Findings:
    """The gateway's CPU per request with keys and without, in turns."""
    given = {"BABELGATE_DATABASE_URL": database_url, "BABELGATE_LIMITS_URL": limits_url}
    urls = {name: url for name, url in given.items() if url}
    requests = list(map(write_request, draw(_SENTENCES, (_LANGUAGE,))))
    with TemporaryDirectory() as name, ExitStack() as gateways:
        targets = {}
        for keys in (OFF, REQUIRED):
            settings = {"BABELGATE_KEYS": keys, **urls}
            running = gateways.enter_context(_start(Path(name) / keys, settings))
            targets[keys] = running.aim(requests)
        return _compare(targets, clients, seconds, rounds, limit_ms=KEY_MS)


def write_requests(dialect: str) -> list[Request]:
    """Write the same sentences in each API."""
    path, write = DIALECTS[dialect]
    return [
        Request(json.dumps(write(sentence), ensure_ascii=False).encode(), path)
        for sentence in draw(_SENTENCES, (_LANGUAGE,))
    ]


def _compare(
    targets: Mapping[str, Target],
    clients: int,
    seconds: float,
    rounds: int,
    *,
    limit_ms: float,
) -> Findings:
    """Find what each target costs more than the first one."""

    def take_turn(name: str, _: int) -> LoadFigures:
        return measure_closed(targets[name], clients=clients, seconds=seconds)

    loads = take_turns({name: partial(take_turn, name) for name in targets}, rounds)
    return describe(loads, limit_ms)


def describe(loads: Mapping[str, Sequence[LoadFigures]], limit_ms: float) -> Findings:
    """A row per target, and what each adds to the first one."""
    figures: Columns[LoadFigures] = {
        CPU_MS: lambda load: load.cpu_ms["gateway"],
        "requests/s": lambda load: load.requests_per_s,
        "errors": lambda load: load.errors,
    }
    goal = FigureGoal(CPU_MS, limit_ms)
    return compare_turns({"": loads}, figures, relation=ADDED, goal=goal)


@contextmanager
def _start(run: Path, settings: Mapping[str, str]) -> Iterator[Running]:
    """A gateway, and a key where it requires one."""
    map_path = write_map(run / "map.json", {}, [_LANGUAGE], device="cpu")
    settings = {**settings, "BABELGATE_RUN_DIR": str(run)}
    headers = {}
    if settings.get("BABELGATE_KEYS") == REQUIRED:
        headers = {"Authorization": f"Bearer {_make_key(settings)}"}
    with start_gateway(run, map_path, settings) as running:
        yield replace(running, headers=headers)


def _make_key(settings: Mapping[str, str]) -> str:
    name = f"benchmark {os.getpid()}"
    made = subprocess.run(
        [sys.executable, "-m", "gateway", "keys", "add", "--name", name, *_GRANT],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.strip()
