"""`python -m ray_backend`: check the map for a cluster, deploy its models, show their state;
translate or caption whole folders.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import catalog
from catalog import CatalogError
from catalog.display import Map, ModelName, make_console, make_option, show_errors
from contract import variables
from ray_backend import deployment
from ray_backend.deployment import Dashboard, DashboardError, DeploymentError

try:
    from ray_backend.bulk import command as bulk
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: `make .venv/ready-cluster` installs it.") from error

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
console = make_console()
_errors = partial(show_errors, console, CatalogError, DashboardError, DeploymentError)

Urls = Annotated[str, make_option("--urls", variables.RAY_URLS)]
KeyFile = Annotated[Path, make_option("--key-file", variables.RAY_KEY_FILE)]
Url = Annotated[str, make_option("--dashboard-url", variables.RAY_DASHBOARD_URL)]
TokenFile = Annotated[Path, make_option("--token-file", variables.RAY_TOKEN_FILE)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would change and do nothing.")
]

URLS = variables.RAY_URLS.default
KEY_FILE = Path(variables.RAY_KEY_FILE.default)
URL = variables.RAY_DASHBOARD_URL.default
TOKEN_FILE = Path(variables.RAY_TOKEN_FILE.default)


@app.command()
def check(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    has_gpus: Annotated[
        bool, typer.Option("--gpus/--no-gpus", help="Whether the cluster has GPUs.")
    ] = True,
) -> None:
    """Read the map and show what Ray would be told; exit 1 where it is wrong."""
    with _errors():
        models = catalog.load(map_path, model=model, is_cluster=True)
    config = deployment.write_config(models, key="", has_gpus=has_gpus, ingress=URLS)
    deployment.show_models(config, models, console)


@app.command()
def deploy(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    urls: Urls = URLS,
    key_file: KeyFile = KEY_FILE,
    dashboard_url: Url = URL,
    token_file: TokenFile = TOKEN_FILE,
    dry_run: DryRun = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and deploy again what gets lost.")
    ] = False,
    timeout_s: Annotated[
        float, typer.Option(help="Longest wait for the models to run, in seconds.")
    ] = 600,
    place_s: Annotated[
        float,
        typer.Option(help="Longest search for a machine for a replica, in seconds."),
    ] = deployment.PLACE_S,
) -> None:
    """Make the cluster run what the map says. Safe to run twice."""
    with _errors():
        models = catalog.load(map_path, model=model, is_cluster=True)
        dashboard = Dashboard(dashboard_url, token_file)
        config = deployment.plan(
            *(dashboard, models, console),
            key=deployment.read_key(key_file),
            ingress=urls.partition(",")[0],
        )
        if dry_run:
            return
        deployment.apply(dashboard, config)
        deployment.show_progress(
            dashboard, config, console, timeout_s=timeout_s, place_s=place_s
        )
        if watch:
            deployment.keep_deployed(dashboard, lambda: config, console.print)


@app.command()
def status(
    map_path: Map = catalog.MAP,
    model: ModelName = None,
    dashboard_url: Url = URL,
    token_file: TokenFile = TOKEN_FILE,
) -> None:
    """Show every model: its state, replicas and machines; exit 1 if some do not run."""
    with _errors():
        models = catalog.load(map_path, model=model, is_cluster=True)
        is_ready = deployment.show_states(
            models, Dashboard(dashboard_url, token_file), console
        )
    raise typer.Exit(0 if is_ready else 1)


app.command("bulk")(bulk.command)


if __name__ == "__main__":
    app()
