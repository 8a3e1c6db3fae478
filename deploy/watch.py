"""Runs beside the stack: heals TorchServe's models, keeps the logs within their limits
and serves the metrics of `deploy.exporter`.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from deploy import exporter, stack
from deploy.rotation import rotate_forever
from torchserve_backend.__main__ import app


def main() -> None:
    """Never returns."""
    run = Path(os.environ["BABELGATE_RUN"])
    threading.Thread(target=rotate_forever, args=(run / "logs",), daemon=True).start()
    running = stack.read(run)
    if running:
        with suppress(OSError):  # models are healed even where the port is taken
            exporter.serve(run, stack.EXPORTER + running.port_offset)
    app(["register", "--watch"])


if __name__ == "__main__":
    main()
