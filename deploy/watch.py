"""Runs alongside the stack: heals models, rotates the logs, serves metrics."""

import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path

import catalog
from catalog.display import console
from contract import durable, variables
from deploy import monitoring, stack
from deploy.stack import Stack
from ray_backend import deployment
from ray_backend.deployment import Dashboard
from torchserve_backend import archiver, registrar
from torchserve_backend.management import Management

_EVERY_S = 5
_MB = 1 << 20


#: The largest size of each program's log, and the number of older logs that are kept.
BOUNDS = {
    "nginx": (50 * _MB, 3),
    "gateway": (20 * _MB, 3),
    "torchserve": (20 * _MB, 3),
    "registrar": (5 * _MB, 1),
    "documents": (5 * _MB, 1),
    "ray": (5 * _MB, 1),
}


def main() -> None:
    """Run all tasks; never return."""
    run = variables.find_run()
    assert run, f"{variables.RUN_DIR.name} is not set"
    threading.Thread(target=rotate_forever, args=(run / "logs",), daemon=True).start()
    running = stack.read(run)
    if running:
        with suppress(OSError):  # models are healed even if the port is taken
            monitoring.serve(run, stack.EXPORTER + running.port_offset)
    if running and running.server == "ray":
        _keep_cluster(running)
    else:
        _heal_torchserve()


def _heal_torchserve() -> None:
    models = catalog.load(
        Path(variables.MAP.read()), gpus=None, model=variables.MODEL.read()
    )
    key_file = Path(variables.KEY_FILE.read())
    management = Management(variables.MANAGEMENT_URL.read(), key_file)
    registrar.heal_forever(archiver.list_desired(models), management, console.print)


def _keep_cluster(running: Stack) -> None:
    """Keep the configuration of `up` deployed on the cluster, but only from the head."""
    dashboard = Dashboard(running.dashboard_url, running.node.token_file)
    deployment.keep_deployed(
        dashboard, lambda: {} if running.head else stack.read_object(running.deployed)
    )


def rotate_forever(logs: Path) -> None:
    """Check all logs every few seconds; never return."""
    while True:
        for program, (most_bytes, kept) in BOUNDS.items():
            with suppress(OSError):  # missing, or a disk error, reported elsewhere
                rotate(logs / f"{program}.log", most_bytes, kept)
        time.sleep(_EVERY_S)


def rotate(path: Path, most_bytes: int, kept: int) -> None:
    """Copy an oversized log to `<name>.1` and truncate it; `kept` older ones remain.

    After renaming, nginx would have to open a new file, which its workers may not be allowed
    to do. A line written in the microseconds between the two steps is lost. On a full disk the
    log is truncated without a copy. Raises OSError.
    """
    if path.stat().st_size < most_bytes:
        return
    older = [path.with_name(f"{path.name}.{i}") for i in range(1, kept + 1)]
    for source, target in zip(older[-2::-1], older[:0:-1], strict=True):
        with suppress(FileNotFoundError):
            durable.rename(source, target)
    with path.open("r+b") as log:
        try:
            with older[0].open("wb", buffering=0) as copy:
                shutil.copyfileobj(log, copy, _MB)
        except OSError:
            older[0].unlink(missing_ok=True)
        log.truncate(0)


if __name__ == "__main__":
    main()
