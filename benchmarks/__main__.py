"""`python -m benchmarks`: measures on this machine what `docs/performance.md` reports."""

from __future__ import annotations

import signal

try:
    from benchmarks.driver import make_app

    app = make_app()
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: `make .venv/ready-dev` installs it.") from error


@app.callback()
def main() -> None:
    """Measure on this machine what docs/performance.md reports."""
    # SIGTERM must stop the stacks of a benchmark as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


if __name__ == "__main__":
    app()
