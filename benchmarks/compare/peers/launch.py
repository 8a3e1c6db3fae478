"""Starts other serving systems, with our engine, in separate Python environments."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path

import requests

from benchmarks.compare.peers.translator import HOST, PeerOptions
from benchmarks.instruments import running
from benchmarks.instruments.running import Running
from catalog import checkpoint, describe_handler
from deploy.stack import GATEWAY, ROOT, StackError

HERE = Path(__file__).parent
#: Our own versions, which also apply to the peers' environments if they need the package.
_CONSTRAINTS = ROOT / "constraints.txt"
_ANSWER_S, _INSTALL_S = 60, 900
#: Serving systems, each with a server in the module `serve_NAME`.
PEERS = ("litserve", "rayserve", "flask")
#: Ray's documentation recommends the second for the highest throughput.
_RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"}


def prepare_peer(name: str) -> Path:
    """Return the Python with a peer's packages, installed if missing. Raises StackError."""
    directory = checkpoint.default_cache() / "benchmarks" / "peers" / name
    return prepare_environment(HERE / f"requirements-{name}.txt", directory)


@contextmanager
def start_peer(
    name: str, run: Path, map_path: Path, model: Path, *, python: Path | None = None
) -> Iterator[Running]:
    """Serve a map and a model while the block lasts, with the interface of `running.start`, in
    the peer's environment unless `python` is given. Raises StackError with its log's end."""
    options = choose(map_path, model)
    python = python or prepare_peer(name)
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    log = run / f"{name}.log"
    url = f"http://{HOST}:{options.port}"
    module = f"{__package__}.serve_{name}"
    command = [str(python), "-m", module, json.dumps(asdict(options))]
    language, *_ = options.handler["languages"]
    row = {"src_lang": language, "src_text": "1", "tgt_lang": language}

    def translates() -> bool:
        answer = requests.post(url, json=row, timeout=_ANSWER_S)
        return answer.status_code == HTTPStatus.OK and "translated" in answer.json()

    # For sockets, whose paths must be short, and for files that Ray writes into HOME.
    with tempfile.TemporaryDirectory(prefix="peer-") as temporary:
        places = {"TMPDIR": temporary, "HOME": temporary, "PYTHONPATH": str(ROOT)}
        with running.run_program(
            command, log, folder=run, environment=places | _RAY
        ) as leader:
            goal = f"{name} translates"
            running.wait_until(translates, goal, running.START_S, {log: leader})
            yield Running(url, {name: leader})


def choose(map_path: Path, model: Path) -> PeerOptions:
    """Return the model and batching of a map. Raises StackError if peers cannot run them."""
    models = running.read_map(map_path, model)
    served = running.merge(models)
    settings = models.translation
    if settings.engine == "transformers" or served.is_on_gpu:
        raise StackError(
            "The peers serve CTranslate2 on the CPU: their environments have neither "
            "PyTorch nor CUDA's libraries."
        )
    directory = checkpoint.prepare(served, checkpoint.default_cache())
    return PeerOptions(
        port=GATEWAY + running.claim_port_offset(),
        batch_size=settings.batch_size,
        wait_s=settings.max_batch_delay / 1000,
        handler=describe_handler(served, directory),
    )


def prepare_environment(requirements: Path, directory: Path) -> Path:
    """Return the Python of an environment, rebuilt for changed packages. Raises StackError."""
    python = directory / "bin" / "python"
    mark = directory / "made-of"
    texts = (path.read_bytes() for path in (requirements, _CONSTRAINTS))
    digest = hashlib.sha256(b"\0".join((sys.version.encode(), *texts))).hexdigest()
    if mark.exists() and mark.read_text("utf-8") == digest:
        return python
    ours = (sys.executable, "-m")
    venv = (*ours, "venv", "--clear", "--without-pip", str(directory))
    pip = (
        *ours, "pip", "--python", str(python), "install", "--quiet", "--no-user",
        "--disable-pip-version-check", "--constraint", str(_CONSTRAINTS),
        "--requirement", str(requirements),
    )  # fmt: skip
    for command in (venv, pip):
        running.run_command(command, _INSTALL_S)
    mark.write_text(digest, "utf-8")
    return python
