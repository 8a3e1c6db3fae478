"""`python -m ray_backend bulk`: translate or caption whole folders."""

import typer

try:
    from ray_backend.bulk.command import command
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: `make .venv/ready-cluster` installs it.") from error

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
app.command("bulk")(command)


@app.callback()
def main() -> None:
    """Work on Ray without a stack."""


if __name__ == "__main__":
    app()
