"""Runs beside the stack: heals models, bounds the logs, serves metrics."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from contract import variables
from deploy import exporter, stack
from deploy.rotation import rotate_forever
from torchserve_backend import catalog, display, preparation, registrar
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
    models = catalog.load(
        Path(variables.MAP.read()), gpus=None, model=variables.MODEL.read()
    )
    key_file = Path(variables.KEY_FILE.read())
    management = Management(variables.MANAGEMENT_URL.read(), key_file)
    desired = preparation.list_desired(models)
    registrar.heal_forever(desired, management, display.make_console().print)


if __name__ == "__main__":
    main()
