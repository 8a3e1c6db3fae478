"""Deploys the map's models: what would change, what is running, what cannot be placed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from catalog import Catalog
from ray_backend.config import make_config
from ray_backend.dashboard import Application, Dashboard, DashboardError, Machine
from ray_backend.nodes import LOOPBACK

#: The time for which a replica may look for a machine before that is called hopeless.
PLACE_S = 60
#: The interval at which a running cluster is compared with the configuration.
EVERY_S = 15
#: The time that Serve may take to remove a failed application.
_GONE_S = 60
_ALL = "0.0.0.0"
_POLL_S = 1.0


class DeploymentError(Exception):
    """Models are not running; the message says which, and why."""


@dataclass(frozen=True)
class Change:
    """The change of one application by a deployment."""

    name: str
    kind: str
    #: The keys that differ, of an application that is there.
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        which = f": {', '.join(self.keys)}" if self.keys else ""
        return f"{self.kind} {self.name}{which}"


def has_gpus(machines: Sequence[Machine]) -> bool:
    """Whether a machine of the cluster has a GPU."""
    return any(machine.resources_total.get("GPU", 0) > 0 for machine in machines)


def write_config(
    models: Catalog, *, key: str, has_gpus: bool, ingress: str
) -> dict[str, Any]:
    """The configuration with the addresses that Serve listens on: on loopback if the gateway
    finds the ingress there, else replicas are reached from other machines."""
    place = urlsplit(ingress)
    host = LOOPBACK if place.hostname in (LOOPBACK, "localhost") else _ALL
    digest = sha256(key.encode()).hexdigest()
    config = make_config(models, key_digest=digest, has_gpus=has_gpus)
    return config | {"http_options": {"host": host, "port": place.port or 80}}


def read_key(path: Path) -> str:
    """The key that the gateway sends to replicas. Raises DeploymentError."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise DeploymentError(
            f"The gateway's key cannot be read from {path}: {error}"
        ) from error


def compare(
    config: Mapping[str, Any], found: Mapping[str, Application]
) -> list[Change]:
    """List the changes of a deployment in the map's order; models that go come last."""
    # Serve gives each application the settings for logs that all share.
    shared = {key: config[key] for key in ("logging_config",) if key in config}
    wanted = {entry["name"]: shared | entry for entry in config["applications"]}
    changes = []
    for name, entry in wanted.items():
        there = found.get(name)
        if there is None:
            changes.append(Change(name, "new"))
            continue
        keys = tuple(_list_differences(_name_parts(there.deployed_app_config), entry))
        if keys:
            changes.append(Change(name, "changed", keys))
    return changes + [Change(name, "gone") for name in found if name not in wanted]


def _list_differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """The keys whose values differ, such as `args.settings.batch_size`."""
    old, new = _name_parts(old), _name_parts(new)
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            yield place
        return
    for key in dict.fromkeys([*new, *old]):
        inner = f"{place}.{key}" if place else key
        yield from _list_differences(old.get(key), new.get(key), inner)


def _name_parts(value: Any) -> Any:
    """A list of objects with names becomes an object, whose keys a reader can follow."""
    if isinstance(value, list) and all(
        isinstance(v, dict) and "name" in v for v in value
    ):
        return {v["name"]: v for v in value}
    return value


def find_unplaced(found: Mapping[str, Application]) -> dict[str, int]:
    """The models that have replicas without a machine, and how many."""
    waiting = {
        name: sum(replica.node_ip is None for replica in entry.replicas)
        for name, entry in found.items()
    }
    return {name: count for name, count in waiting.items() if count}


def explain_unplaced(
    found: Mapping[str, Application], machines: Sequence[Machine]
) -> list[str]:
    """A line for each model with replicas that no machine takes: what one needs, what the
    machines have, and which of them have as many of its replicas as they may."""
    have = "; ".join(map(describe_machine, machines))
    return [
        f"{name}: {count} of {found[name].wanted} replicas cannot be placed. "
        f"Each needs {describe_resources(_find_needs(found[name]))}; {have}."
        f"{_explain_full(found[name])}"
        for name, count in find_unplaced(found).items()
    ]


def _explain_full(application: Application) -> str:
    most = application.most_per_machine
    placed = Counter(each.node_ip for each in application.replicas if each.node_ip)
    full = [node_ip for node_ip, count in placed.items() if most and count >= most]
    if not full:
        return ""
    return f" max_replicas_per_machine is {most}, and as many are on {', '.join(full)}."


def explain_failed(found: Mapping[str, Application]) -> list[str]:
    """A line for each model that cannot be loaded."""
    return [f"{n} has failed: {e.reason}" for n, e in found.items() if e.has_failed]


def describe_machine(machine: Machine) -> str:
    """Such as `10.0.0.1 has 16 CPU, 8 GPU, accelerator H100`."""
    return f"{machine.node_ip} has {describe_resources(machine.resources_total)}"


def _find_needs(application: Application) -> Mapping[str, float]:
    return next(
        (each.required_resources for each in application.deployments.values()), {}
    )


def describe_resources(resources: Mapping[str, float]) -> str:
    """Such as `16 CPU, 8 GPU, accelerator H100`."""
    counted = [
        f"{resources[kind]:g} {kind}" for kind in ("CPU", "GPU") if resources.get(kind)
    ]
    kinds = [
        name.partition(":")[2]
        for name in resources
        if name.startswith("accelerator_type:")
    ]
    return (
        ", ".join([*counted, *(f"accelerator {kind}" for kind in kinds)]) or "nothing"
    )


def apply(dashboard: Dashboard, config: Mapping[str, Any]) -> None:
    """Makes Serve run what the configuration says. Models that Serve has given up are taken
    out first: it does not try the same model again. Raises DeploymentError."""
    given_up = _find_given_up(dashboard)
    if given_up:
        others = [e for e in config["applications"] if e["name"] not in given_up]
        dashboard.deploy({**config, "applications": others})
        _wait_until_gone(dashboard, given_up)
    dashboard.deploy(config)


def _find_given_up(dashboard: Dashboard) -> set[str]:
    """Find the applications that have failed, unless the last version of a model still
    answers."""
    return {
        name
        for name, each in dashboard.list_applications().items()
        if each.has_failed and not any(replica.is_running for replica in each.replicas)
    }


def _wait_until_gone(dashboard: Dashboard, names: set[str]) -> None:
    give_up_at_s = time.monotonic() + _GONE_S
    while not names.isdisjoint(dashboard.list_applications()):
        if time.monotonic() > give_up_at_s:
            raise DeploymentError(f"Serve does not remove {', '.join(sorted(names))}.")
        time.sleep(_POLL_S)


def poll(
    dashboard: Dashboard,
    config: Mapping[str, Any],
    *,
    timeout_s: float,
    place_s: float = PLACE_S,
) -> Iterator[Mapping[str, Application]]:
    """Yield Serve's applications every second until they are those of the configuration.

    Raises DeploymentError if a model has failed, cannot be placed or is late.
    """
    start_s = placed_s = time.monotonic()
    while True:
        found = dashboard.list_applications()
        yield found
        if is_reached(config, found):
            return
        _check_failed(found)
        now_s = time.monotonic()
        placed_s = placed_s if find_unplaced(found) else now_s
        if now_s - placed_s > place_s:
            lines = explain_unplaced(found, dashboard.list_machines())
            raise DeploymentError("\n".join(lines))
        if now_s - start_s > timeout_s:
            late = [name for name, each in found.items() if not each.is_running]
            changes = map(str, compare(config, found))
            raise DeploymentError(
                f"Not running after {timeout_s:g} s: {', '.join([*late, *changes])}. "
                "The logs of their replicas say why."
            )
        time.sleep(_POLL_S)


def is_reached(config: Mapping[str, Any], found: Mapping[str, Application]) -> bool:
    """Whether Serve runs what the configuration says, and nothing else."""
    are_running = all(each.is_running for each in found.values())
    return are_running and not compare(config, found)


def _check_failed(found: Mapping[str, Application]) -> None:
    failed = explain_failed(found)
    if failed:
        raise DeploymentError("\n".join(failed))


def keep_deployed(
    dashboard: Dashboard,
    read_config: Callable[[], Mapping[str, Any]],
    say: Callable[[str], object],
) -> NoReturn:
    """Deploys whenever the cluster has nothing of the configuration: after the head came back
    without its state. That counts from the second look, so that a head that is reading its
    state is left alone. It does not undo what somebody else has deployed."""
    was_lost = False
    while True:
        config = read_config()
        names = {entry["name"] for entry in config.get("applications", ())}
        with suppress(DashboardError):  # the head is away; it shows in `status`
            is_lost = names.isdisjoint(dashboard.list_applications()) and bool(names)
            if is_lost and was_lost:
                say("deployed anew: the cluster had lost all models")
                dashboard.deploy(config)
            was_lost = is_lost
        time.sleep(EVERY_S)
