"""`python -m benchmarks`: measures on this machine what `docs/performance.md` reports."""

from __future__ import annotations

import signal

import typer

try:
    from benchmarks.compare import command as compare
    from benchmarks.measure import (
        bulk,
        captioning,
        dialects,
        documents,
        engine,
        fairness,
        hostile,
        ingress,
        keys,
        microbatching,
        overload,
        page,
        soak,
        stack,
        study,
    )
    from benchmarks.simulate import command as simulate
    from benchmarks.tune import command as tune
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: `make .venv/ready-dev` installs it.") from error

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.callback()
def main() -> None:
    """Measure on this machine what docs/performance.md reports."""
    # Whoever ends a benchmark so wants its stacks stopped as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


for module in (
    engine,
    study,
    stack,
    overload,
    soak,
    fairness,
    hostile,
    dialects,
    documents,
    page,
    compare,
    tune,
    simulate,
    captioning,
    microbatching,
    keys,
    bulk,
    ingress,
):
    name = module.__name__.removesuffix(".command").rpartition(".")[2]
    app.command(name)(module.command)

if __name__ == "__main__":
    app()
