"""`python -m ray_backend`: the map's models on Ray."""

from __future__ import annotations

import typer

from ray_backend.bulk import command as bulk

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.callback()
def main() -> None:
    """The map's models on Ray."""


app.command("bulk")(bulk.command)

if __name__ == "__main__":
    app()
