"""Runs beside the stack: heals models, bounds the logs, serves metrics."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import catalog
from catalog.display import make_console
from contract import variables
from deploy import exporter, stack, statefiles
from deploy.rotation import rotate_forever
from deploy.stack import Stack
from ray_backend import deployment
from ray_backend.dashboard import Dashboard
from torchserve_backend import preparation, registrar
from torchserve_backend.management import Management


def main() -> None:
    """Never returns."""
    run = variables.find_run()
    assert run, f"{variables.RUN_DIR.name} is not set"
    threading.Thread(target=rotate_forever, args=(run / "logs",), daemon=True).start()
    running = stack.read(run)
    if running:
        with suppress(OSError):  # models are healed even where the port is taken
            exporter.serve(run, stack.EXPORTER + running.port_offset)
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
    desired = preparation.list_desired(models)
    registrar.heal_forever(desired, management, make_console().print)


def _keep_cluster(running: Stack) -> None:
    """Keeps deployed what `up` has deployed on the cluster; a machine that has only joined
    leaves that to the head."""
    dashboard = Dashboard(running.dashboard_url, running.node.token_file)
    deployment.keep_deployed(
        dashboard,
        lambda: {} if running.head else statefiles.read(running.deployed),
        make_console().print,
    )


if __name__ == "__main__":
    main()
