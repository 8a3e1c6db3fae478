"""Starts the baseline on its own ports and in its own directory, and stops it."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests
import yaml

import catalog
from benchmarks.instruments import running
from benchmarks.instruments.running import START_S, Running
from catalog import Model, TranslationSection
from contract.tasks import TRANSLATION
from deploy import programs
from deploy.stack import (
    DOOR,
    GATEWAY,
    INFERENCE,
    MANAGEMENT,
    ROOT,
    StackError,
    move_ports,
)
from torchserve_backend.archiver import Desired
from torchserve_backend.management import Management

HERE = Path(__file__).parent
BATCH_SIZE, BATCH_DELAY_MS = 64, 100
_NEVER_S = 86_400
_WORKERS, _CONNECTIONS = 16, 1024
_LOOK_S = 1
_GATEWAY = "benchmarks.compare.baseline.gateway:create_app"


@contextmanager
def start(run: Path, map_path: Path, model: Path) -> Iterator[Running]:
    """Starts the baseline for a map's languages and devices. Raises StackError if it cannot."""
    offset = running.claim_port_offset()
    routes = running.read_map(map_path).routes
    placed = {language: model.devices[0] for (_, language), model in routes.items()}
    lay_out(run, placed, model, offset)
    url, folder = f"http://127.0.0.1:{DOOR + offset}", run / "torchserve"
    environment = {
        "JAVA_HOME": str(programs.find_java_home()),
        **dict.fromkeys(("TEMP", "TMPDIR"), str(folder / "tmp")),
    }
    management = Management(f"http://127.0.0.1:{MANAGEMENT + offset}", Path(os.devnull))

    def are_ready() -> bool:
        found = map(management.describe, placed)
        return all(model is not None and model.is_ready for model in found)

    def is_open() -> bool:
        """Whether nginx and the gateway answer: both know that there is nothing to GET."""
        status = requests.get(url, timeout=_LOOK_S).status_code
        return status == HTTPStatus.METHOD_NOT_ALLOWED

    with ExitStack() as stack:
        leaders, logs = {}, {}
        for name, command in _list_commands(run, offset).items():
            log = run / "logs" / f"{name}.log"
            program = running.run_program(
                command, log, folder=folder, environment=environment
            )
            leaders[name] = logs[log] = stack.enter_context(program)
        wait_until = partial(running.wait_until, limit_s=START_S, leaders=logs)
        wait_until(lambda: management.names() is not None, "TorchServe answers")
        section = TranslationSection(
            batch_size=BATCH_SIZE, max_batch_delay=BATCH_DELAY_MS
        )
        for language, device in placed.items():
            wanted = Model(language, TRANSLATION, (language,), (device,), section)
            management.register(Desired(wanted, "1.0"))
        wait_until(are_ready, "the models are ready")
        wait_until(is_open, "nginx and the gateway answer")
        yield Running(url, leaders)


def lay_out(run: Path, placed: Mapping[str, str], model: Path, offset: int) -> None:
    """Writes the configuration with moved ports, and an archive without weights per language
    with its device: `cpu`, or the number of a GPU."""
    shutil.rmtree(run, ignore_errors=True)
    for folder in ("logs", "temp", "torchserve/store", "torchserve/tmp"):
        (run / folder).mkdir(parents=True)
    for name, folder in (("nginx.conf", "."), ("config.properties", "torchserve")):
        text = (HERE / name).read_text("utf-8")
        (run / folder / name).write_text(move_ports(text, offset), "utf-8")
    manifest = (HERE / "manifest.json").read_text("utf-8")
    for language, device in placed.items():
        archive = run / "torchserve/store" / f"{language}.mar"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(
                "MAR-INF/MANIFEST.json", manifest.replace("LANGUAGE", language)
            )
            file.writestr("model-config.yaml", _configure(device, model))


def _configure(device: str, model: Path) -> str:
    config: dict[str, Any] = {
        "minWorkers": 1,
        "maxWorkers": 1,
        "responseTimeout": _NEVER_S,
        "startupTimeout": START_S,
        "deviceType": "cpu" if device == catalog.CPU else "gpu",
        "handler": {"model_path": str(model)},
    }
    if device != catalog.CPU:
        config["deviceIds"] = [int(device)]
    return yaml.safe_dump(config)


def _list_commands(run: Path, offset: int) -> dict[str, list[str]]:
    binaries = Path(sys.executable).parent
    nginx = programs.find(programs.NGINX)
    if nginx is None:
        raise StackError("nginx is missing; `python -m deploy prepare` installs it.")
    predictions = f"http://127.0.0.1:{INFERENCE + offset}/predictions"
    return {
        "torchserve": [
            *(str(binaries / "torchserve"), "--start", "--foreground", "--ncs"),
            *("--model-store", "store", "--ts-config", "config.properties"),
        ],
        "gateway": [
            *(str(binaries / "gunicorn"), "--worker-class", "gevent"),
            *("--bind", f"127.0.0.1:{GATEWAY + offset}"),
            *("--workers", str(_WORKERS), "--timeout", str(_NEVER_S)),
            *("--worker-connections", str(_CONNECTIONS), "--pythonpath", str(ROOT)),
            *("--no-control-socket", f"{_GATEWAY}({predictions!r})"),
        ],
        "nginx": [
            *(str(nginx), "-p", f"{run}/", "-c", "nginx.conf", "-g", "daemon off;")
        ],
    }
