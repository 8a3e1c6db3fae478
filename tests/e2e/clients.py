"""Installs clients of other APIs, once, in separate environments."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from benchmarks.compare.peers import launch
from deploy import programs
from deploy.stack import ROOT
from tests.programs import run

FOREIGN = Path(__file__).with_name("foreign")
_PYTHON, _NODE = ROOT / ".venv/clients", ROOT / ".venv/clients-node"
_LIMIT_S = 300


def ask(topic: str, *arguments: str) -> dict[str, Any]:
    """Return the answers to the Python and npm packages on a topic, by package."""
    with _installing():
        python = launch.prepare_environment(FOREIGN / "requirements.txt", _PYTHON)
    by_python = run(python, FOREIGN / "ask.py", topic, *arguments, limit_s=_LIMIT_S)
    script = prepare_node() / "ask.mjs"
    by_node = run("node", script, topic, *arguments, limit_s=_LIMIT_S)
    return {**json.loads(by_python), **json.loads(by_node)}


@contextmanager
def _installing() -> Iterator[None]:
    with _PYTHON.with_name("clients.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


def prepare_node() -> Path:
    """Install the npm packages next to copies of the programs, where Node.js finds them."""
    for program in (programs.NODE, programs.NPM):
        assert programs.find(program), f"{program.name} is missing: {program.package}"
    _NODE.mkdir(parents=True, exist_ok=True)
    for path in (*FOREIGN.glob("*.mjs"), *FOREIGN.glob("*.json")):
        shutil.copy(path, _NODE)
    lock = (FOREIGN / "package-lock.json").read_bytes()
    mark, digest = _NODE / "made-of", hashlib.sha256(lock).hexdigest()
    with _installing():
        if not mark.exists() or mark.read_text() != digest:
            command = ("npm", "ci", "--no-audit", "--no-fund", "--prefix", _NODE)
            run(*command, limit_s=_LIMIT_S)
            mark.write_text(digest)
    return _NODE
