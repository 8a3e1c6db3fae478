"""`python -m gateway keys`: makes, lists and revokes the keys of clients."""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from catalog.display import make_command
from contract.times import write_time
from gateway.access.keys import ApiKey, Grant, read_routes
from gateway.access.storage import KeyStorage
from gateway.database import find_database
from gateway.database.connections import StorageError
from gateway.settings import SettingsError, read_settings

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="The gateway's keys."
)
keys = typer.Typer(
    no_args_is_help=True,
    help="Clients' keys. A running stack applies changes within a second.",
)
app.add_typer(keys, name="keys")
#: Messages go to standard error, because scripts read standard output.
console = Console(
    stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True
)
OPTIONS = Path(__file__).with_name("options.yaml")
command = make_command(keys, OPTIONS, StorageError, SettingsError, OSError)

#: Columns of a table, which is never cut off: a narrow terminal wraps its lines instead.
_WIDEST = 400
_MOST_NAME = 200


@command()
def add(
    *,
    name: str,
    characters_per_month: int | None = None,
    requests_per_minute: int | None = None,
    burst: int | None = None,
    share_cache: bool = False,
    routes: list[str] | None = None,
) -> None:
    """Make a key and print it. Only its hash is stored, so it cannot be printed again."""
    if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
        raise typer.BadParameter(
            f"expected 1 to {_MOST_NAME} printable characters", param_hint="--name"
        )
    try:
        allowed = read_routes(routes or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--routes") from error
    if burst and not requests_per_minute:
        raise typer.BadParameter(
            "expected --requests-per-minute as well", param_hint="--burst"
        )
    grant = Grant(
        characters_per_month, requests_per_minute, allowed, burst, share_cache
    )
    with _open_storage() as storage:
        token = storage.add(name.strip(), grant)
    console.print(f"The key of {name.strip()}; save it, as it is not shown again:")
    typer.echo(token)


@command("list")
def list_keys(*, as_json: bool = False) -> None:
    """List all keys with their usage this month."""
    with _open_storage() as storage:
        found = storage.list_all()
    if as_json:
        listed = [_describe_key(*each) for each in found.items()]
        typer.echo(json.dumps(listed, ensure_ascii=False))
    else:
        table = _draw(found)
        Console(markup=False, emoji=False, highlight=False, width=_WIDEST).print(table)


@command()
def revoke(key: str) -> None:
    """Revoke a key permanently."""
    with _open_storage() as storage:
        gone = storage.revoke(key)
    console.print(f"Revoked {gone.name} ({gone.id}).")


def _open_storage() -> closing[KeyStorage]:
    return closing(KeyStorage(find_database(read_settings())))


def _describe_key(key: ApiKey, characters: int) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "characters_this_month": characters,
        **asdict(key.grant),
        "routes": key.grant.routes or None,
        "created_at": write_time(key.created_at),
        "revoked_at": key.revoked_at and write_time(key.revoked_at),
    }


def _draw(found: Mapping[ApiKey, int]) -> Table:
    numbers = ("this month", "per month", "per minute", "at once")
    table = Table(
        "id",
        "name",
        *(Column(name, justify="right") for name in numbers),
        "routes",
        "state",
        box=SIMPLE_HEAD,
    )
    for key, characters in found.items():
        grant, per_minute = key.grant, key.grant.requests_per_minute
        limits = grant.characters_per_month, per_minute, grant.burst or per_minute
        revoked = key.revoked_at and write_time(key.revoked_at)
        table.add_row(
            key.id,
            key.name,
            f"{characters:,}",
            *("-" if limit is None else f"{limit:,}" for limit in limits),
            ", ".join(grant.routes) or "all",
            f"revoked {revoked}" if revoked else "valid",
        )
    return table


if __name__ == "__main__":
    app()
