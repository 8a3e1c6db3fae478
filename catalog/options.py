"""Options that the command lines of both backends have, each declared by its variable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from contract import variables
from contract.variables import Variable


def make_option(name: str, variable: Variable) -> Any:
    """An option that the environment variable sets as well, with its meaning as help."""
    return typer.Option(name, envvar=variable.name, help=variable.meaning)


Map = Annotated[Path, make_option("--map", variables.MAP)]
ModelName = Annotated[str | None, make_option("--model", variables.MODEL)]
