"""Runs beside the stack: heals TorchServe's models and keeps the logs within their
limits.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from deploy.rotation import rotate_forever
from torchserve_backend.__main__ import app


def main() -> None:
    """Never returns."""
    logs = Path(os.environ["BABELGATE_RUN"]) / "logs"
    threading.Thread(target=rotate_forever, args=(logs,), daemon=True).start()
    app(["register", "--watch"])


if __name__ == "__main__":
    main()
