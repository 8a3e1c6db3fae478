"""Shows the models of a cluster on a terminal: what the map says, and how they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from catalog import Catalog
from catalog.display import make_progress
from ray_backend import deployment
from ray_backend.dashboard import Application, Dashboard


def show_models(config: Mapping[str, Any], models: Catalog, console: Console) -> None:
    """Show each model of the map as Ray gets it."""
    table = Table("model", "serves", "replicas", "CPUs", "GPUs", "accelerator")
    serves = {model.name: " ".join(model.serves) for model in models.models}
    for entry in config["applications"]:
        (told,) = entry["deployments"]
        needs = told["ray_actor_options"]
        table.add_row(
            *(entry["name"], serves[entry["name"]], _describe_replicas(told)),
            *(f"{needs['num_cpus']:g}", f"{needs['num_gpus']:g}"),
            needs.get("accelerator_type", "any" if needs["num_gpus"] else "-"),
        )
    console.print(table, soft_wrap=False)


def _describe_replicas(told: Mapping[str, Any]) -> str:
    """Such as `2 to 8, 1 per machine`."""
    count = str(told.get("num_replicas"))
    if scaling := told.get("autoscaling_config"):
        count = f"{scaling['min_replicas']} to {scaling['max_replicas']}"
    most = told.get("max_replicas_per_node")
    return f"{count}, {most} per machine" if most else count


def show_states(models: Catalog | None, dashboard: Dashboard, console: Console) -> bool:
    """Show the state of each model, of the cluster and of the map if that is known here,
    and return whether all run. Raises DashboardError."""
    found, machines = dashboard.list_applications(), dashboard.list_machines()
    names = [model.name for model in models.models] if models else []
    table = Table("model", "serves", "state", "replicas", "machines")
    for name in dict.fromkeys([*names, *found]):
        entry = found.get(name)
        state = _describe_state(entry) if entry else ("-", "not deployed", "-", "-")
        table.add_row(name, *state)
    console.print(table, soft_wrap=False)
    for machine in machines:
        console.print(deployment.describe_machine(machine))
    for line in (
        *deployment.explain_failed(found),
        *deployment.explain_unplaced(found, machines),
    ):
        console.print(line, style="yellow")
    is_running = all(entry.is_running for entry in found.values())
    return bool(found) and is_running and found.keys() >= {*names}


def _describe_state(entry: Application) -> Sequence[str]:
    running = [each for each in entry.replicas if each.is_running]
    places = Counter(each.node_ip for each in running)
    on = " ".join(f"{ip}×{n}" if n > 1 else str(ip) for ip, n in places.items())
    told = (entry.deployed_app_config or {}).get("args", {})
    serves = " ".join(told.get("languages") or (told.get("task", "-"),))
    return (serves, entry.status, f"{len(running)}/{entry.wanted}", on or "-")


def plan(
    dashboard: Dashboard, models: Catalog, console: Console, *, key: str, ingress: str
) -> dict[str, Any]:
    """The configuration for the cluster as it is now; shows what deploying it would change.
    Raises DashboardError."""
    has_gpus = deployment.has_gpus(dashboard.list_machines())
    if not has_gpus and any(model.is_on_gpu for model in models.models):
        console.print(
            "The cluster has no GPU: every model runs on the CPU.", style="yellow"
        )
    config = deployment.write_config(
        models, key=key, has_gpus=has_gpus, ingress=ingress
    )
    changes = deployment.compare(config, dashboard.list_applications())
    console.print(
        "\n".join(map(str, changes))
        or "nothing to change: the cluster has what the map says"
    )
    return config


def show_progress(
    dashboard: Dashboard,
    config: Mapping[str, Any],
    console: Console,
    *,
    timeout_s: float,
    place_s: float = deployment.PLACE_S,
) -> None:
    """A bar of running models until all are.

    Raises DeploymentError if some fail, cannot be placed or are late; DashboardError.
    """
    with make_progress(console) as progress:
        bar = progress.add_task("running", total=len(config["applications"]))
        polled = deployment.poll(
            dashboard, config, timeout_s=timeout_s, place_s=place_s
        )
        for found in polled:
            running = sum(entry.is_running for entry in found.values())
            progress.update(bar, completed=running)
