"""Deploys the map's models to Ray Serve by the HTTP API of Ray's dashboard, and shows on a
terminal running models, and replicas that cannot be placed.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import requests
from pydantic import BaseModel, Field, TypeAdapter

from catalog import Catalog
from catalog.display import console, make_progress, make_table

#: Seconds for which a replica may wait for a machine before the deployment fails.
_PLACE_S = 60
#: Seconds between two comparisons of a running cluster with the configuration.
_EVERY_S = 15
#: Seconds that Serve may need to remove a failed application.
_GONE_S = 60
_POLL_S = 1.0
_TIMEOUT_S = 20
#: Ray starts Serve's controller with the first deployment.
_DEPLOY_S = 90
#: The most characters that are quoted of an unexpected answer.
_QUOTED = 500
_RUNNING = "RUNNING"
_REFUSED = (requests.codes.unauthorized, requests.codes.forbidden)


class DashboardError(Exception):
    """Ray's dashboard does not answer, or refused a call; the message quotes it."""


class ReplicaStatus(BaseModel, frozen=True):
    """A copy of a model. It and the classes below have only the used fields of Ray's answer."""

    state: str
    #: None until Ray has found a machine for it.
    node_ip: str | None = None
    #: Its process id there.
    pid: int | None = None

    @property
    def is_running(self) -> bool:
        return self.state == _RUNNING


class Deployment(BaseModel, frozen=True):
    """The replicas of an application."""

    message: str = ""
    deployment_config: dict[str, Any] = Field({})
    #: The wanted number of replicas.
    wanted: int = Field(0, validation_alias="target_num_replicas")
    #: The resources of each replica, such as `{"CPU": 0.1, "GPU": 0.5}`.
    needs: dict[str, float] = Field({}, validation_alias="required_resources")
    replicas: tuple[ReplicaStatus, ...] = ()

    @property
    def unplaced(self) -> int:
        """The number of replicas without a machine."""
        return sum(each.node_ip is None for each in self.replicas)


class Application(BaseModel, frozen=True):
    """A model of the map in Serve."""

    status: str
    message: str = ""
    #: The deployed configuration, key by key.
    deployed_app_config: dict[str, Any] | None = None
    deployments: dict[str, Deployment] = Field({})

    @property
    def model(self) -> Deployment:
        """Its one deployment, which Serve creates a while after the application."""
        return next(iter(self.deployments.values()), Deployment())

    @property
    def is_running(self) -> bool:
        return self.status == _RUNNING

    @property
    def has_failed(self) -> bool:
        """Whether Serve has given up on it."""
        return self.status == "DEPLOY_FAILED"

    @property
    def reason(self) -> str:
        """The reason it is not running: the last line of Ray's message, raised by a replica."""
        return f"{self.message}\n{self.model.message}".strip().rpartition("\n")[2]


class Machine(BaseModel, frozen=True):
    """A node of the cluster."""

    node_ip: str
    state: str
    #: Such as `{"CPU": 16, "GPU": 8, "accelerator_type:H100": 1}`.
    resources_total: dict[str, float] = Field({})


_Shape = TypeVar("_Shape")
_APPLICATIONS = TypeAdapter(dict[str, Application])
_MACHINES = TypeAdapter(tuple[Machine, ...])


class Dashboard:
    """A cluster's dashboard. Every method raises DashboardError."""

    def __init__(self, url: str, token_file: Path) -> None:
        self._url = url.rstrip("/")
        self._token_file = token_file
        self._session = requests.Session()
        self._session.trust_env = False

    def list_applications(self) -> Mapping[str, Application]:
        """List Serve's applications by name; none before the first deployment."""
        return self._read_json(
            "/api/serve/applications/", _APPLICATIONS, "applications"
        )

    def list_machines(self) -> tuple[Machine, ...]:
        """List the machines of the cluster that are alive."""
        path = "/api/v0/nodes?detail=1&limit=10000"
        machines = self._read_json(path, _MACHINES, "data", "result", "result")
        return tuple(machine for machine in machines if machine.state == "ALIVE")

    def deploy(self, config: Mapping[str, Any]) -> None:
        """Make Serve run exactly the configuration. Ray reconciles it in the background."""
        self._call("PUT", "/api/serve/applications/", json=config, timeout=_DEPLOY_S)

    def _read_json(self, path: str, shape: TypeAdapter[_Shape], *keys: str) -> _Shape:
        text = self._call("GET", path).text
        try:
            content = json.loads(text)
            for key in keys:
                content = content[key]
            return shape.validate_python(content)
        except (ValueError, LookupError, TypeError) as error:
            raise DashboardError(
                f"Unexpected answer from {self._url}{path}: {text[:_QUOTED]}"
            ) from error

    def _call(self, method: str, path: str, **options: Any) -> requests.Response:
        try:
            token = self._token_file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise DashboardError(
                f"The cluster's token cannot be read from {self._token_file}: {error}"
            ) from error
        options = {"timeout": _TIMEOUT_S, **options}
        headers = {"Authorization": f"Bearer {token}"}
        try:
            response = self._session.request(
                method, self._url + path, headers=headers, **options
            )
        except requests.RequestException as error:
            raise DashboardError(
                f"Ray's dashboard at {self._url} does not answer: {type(error).__name__}"
            ) from error
        if response.status_code in _REFUSED:
            raise DashboardError(
                f"Ray's dashboard at {self._url} rejects the token in "
                f"{self._token_file}: copy the file from the head."
            )
        if not response.ok:
            said = response.text[:_QUOTED] or "an empty answer"
            raise DashboardError(
                f"{self._url}{path} answered {response.status_code} {said}"
            )
        return response


class DeploymentError(Exception):
    """Models are not running; the message says which, and why."""


def has_gpus(machines: Sequence[Machine]) -> bool:
    """Whether a machine of the cluster has a GPU."""
    return any(machine.resources_total.get("GPU", 0) > 0 for machine in machines)


def read_key(path: Path) -> str:
    """Return the key that the gateway sends to replicas. Raises DeploymentError."""
    try:
        key = path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise DeploymentError(
            f"The gateway's key cannot be read from {path}: {error}"
        ) from error
    if not key:
        raise DeploymentError(
            f"{path}: expected the gateway's key, found an empty file."
        )
    return key


def compare(config: Mapping[str, Any], found: Mapping[str, Application]) -> list[str]:
    """List a deployment's changes in the map's order, as `changed fr: args`; removals last."""
    # Serve adds the shared log settings to each application.
    shared = {key: config[key] for key in ("logging_config",) if key in config}
    wanted = {entry["name"]: shared | entry for entry in config["applications"]}
    changes = []
    for name, entry in wanted.items():
        if name not in found:
            changes.append(f"new {name}")
        elif keys := [*_list_differences(found[name].deployed_app_config, entry)]:
            changes.append(f"changed {name}: {', '.join(keys)}")
    return changes + [f"gone {name}" for name in found if name not in wanted]


def _list_differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield the keys whose values differ, such as `args.settings.batch_size`. The only
    deployment of an application is compared as if it were not in a list."""
    match old, new:
        case (dict(old), dict(new)) | ([dict(old)], [dict(new)]):
            for key in dict.fromkeys([*new, *old]):
                inner = f"{place}.{key}" if place else key
                yield from _list_differences(old.get(key), new.get(key), inner)
        case _ if old != new:
            yield place


def explain_unplaced(
    found: Mapping[str, Application], machines: Sequence[Machine]
) -> list[str]:
    """Return a line for each model with replicas that fit on no machine: the needs of one, the
    machines' resources, and the machines that have their maximum of replicas."""
    lines = []
    for name, model in ((name, each.model) for name, each in found.items()):
        if not model.unplaced:
            continue
        most = model.deployment_config.get("max_replicas_per_node")
        placed = Counter(each.node_ip for each in model.replicas if each.node_ip)
        full = [node_ip for node_ip, count in placed.items() if most and count >= most]
        why = f" max_replicas_per_machine is {most}, reached on {', '.join(full)}."
        lines.append(
            f"{name}: {model.unplaced} of {model.wanted} replicas cannot be placed. "
            f"{explain_needs(model.needs, machines)}{why if full else ''}"
        )
    return lines


def explain_needs(needs: Mapping[str, float], machines: Sequence[Machine]) -> str:
    """Describe the needs of each replica or worker, and the machines' resources."""
    have = "; ".join(map(describe_machine, machines))
    return f"Each needs {describe_resources(needs)}; {have}."


def explain_failed(found: Mapping[str, Application]) -> list[str]:
    """Return a line for each model that cannot be loaded."""
    return [f"{n} has failed: {e.reason}" for n, e in found.items() if e.has_failed]


def describe_machine(machine: Machine) -> str:
    """Return a text such as `10.0.0.1 has 16 CPU, 8 GPU, accelerator H100`."""
    return f"{machine.node_ip} has {describe_resources(machine.resources_total)}"


def describe_resources(resources: Mapping[str, float]) -> str:
    """Return a text such as `16 CPU, 8 GPU, accelerator H100`."""
    counted = [
        f"{resources[kind]:g} {kind}" for kind in ("CPU", "GPU") if resources.get(kind)
    ]
    prefix = "accelerator_type:"
    kinds = [name.removeprefix(prefix) for name in resources if name.startswith(prefix)]
    named = [*counted, *(f"accelerator {kind}" for kind in kinds)]
    return ", ".join(named) or "nothing"


def apply(dashboard: Dashboard, config: Mapping[str, Any]) -> None:
    """Make Serve run the configuration. Models on which Serve has given up are removed first,
    unless their last version still answers: Serve does not try the same model again. Raises
    DeploymentError."""
    given_up = {
        name
        for name, each in dashboard.list_applications().items()
        if each.has_failed and not any(one.is_running for one in each.model.replicas)
    }
    if given_up:
        others = [e for e in config["applications"] if e["name"] not in given_up]
        dashboard.deploy({**config, "applications": others})
        give_up_at_s = time.monotonic() + _GONE_S
        while not given_up.isdisjoint(dashboard.list_applications()):
            if time.monotonic() > give_up_at_s:
                names = ", ".join(sorted(given_up))
                raise DeploymentError(f"Serve did not remove {names}.")
            time.sleep(_POLL_S)
    dashboard.deploy(config)


def show_progress(
    dashboard: Dashboard, config: Mapping[str, Any], *, timeout_s: float
) -> None:
    """Show a bar of running models until the whole configuration runs. Raises DashboardError,
    and DeploymentError if models fail, cannot be placed or are late."""
    start_s = placed_s = time.monotonic()
    with make_progress() as progress:
        bar = progress.add_task("running", total=len(config["applications"]))
        while True:
            found = dashboard.list_applications()
            late = [name for name, each in found.items() if not each.is_running]
            progress.update(bar, completed=len(found) - len(late))
            late += compare(config, found)
            if not late:
                return
            if failed := explain_failed(found):
                raise DeploymentError("\n".join(failed))
            now_s = time.monotonic()
            if not any(each.model.unplaced for each in found.values()):
                placed_s = now_s
            if now_s - placed_s > _PLACE_S:
                lines = explain_unplaced(found, dashboard.list_machines())
                raise DeploymentError("\n".join(lines))
            if now_s - start_s > timeout_s:
                raise DeploymentError(
                    f"Not running after {timeout_s:g} s: {', '.join(late)}. "
                    "The logs of their replicas say why."
                )
            time.sleep(_POLL_S)


def keep_deployed(
    dashboard: Dashboard, read_config: Callable[[], Mapping[str, Any]]
) -> NoReturn:
    """Deploy whenever the cluster has no model of the configuration, because the head restarted
    without its state. Two checks in a row must find that, so that a head that is reading its
    state is left alone. Other deployments are not undone."""
    was_lost = False
    while True:
        config = read_config()
        names = {entry["name"] for entry in config.get("applications", ())}
        with suppress(DashboardError):  # the head is unreachable, which `status` shows
            is_lost = names.isdisjoint(dashboard.list_applications()) and bool(names)
            if is_lost and was_lost:
                console.print("The cluster lost all models; deploying them again.")
                dashboard.deploy(config)
            was_lost = is_lost
        time.sleep(_EVERY_S)


def show_states(models: Catalog | None, dashboard: Dashboard) -> bool:
    """Show the state of each model in the cluster and, if given, in the map. Return whether all
    run. Raises DashboardError."""
    found, machines = dashboard.list_applications(), dashboard.list_machines()
    names = [model.name for model in models.models] if models else []
    table = make_table("model", "serves", "state", "replicas", "machines")
    for name in dict.fromkeys([*names, *found]):
        entry = found.get(name)
        state = _describe_state(entry) if entry else ("-", "not deployed", "-", "-")
        table.add_row(name, *state)
    console.print(table, soft_wrap=False)
    for machine in machines:
        console.print(describe_machine(machine))
    for line in (*explain_failed(found), *explain_unplaced(found, machines)):
        console.print(line, style="yellow")
    is_running = all(entry.is_running for entry in found.values())
    return bool(found) and is_running and found.keys() >= {*names}


def _describe_state(entry: Application) -> Sequence[str]:
    running = [each for each in entry.model.replicas if each.is_running]
    places = Counter(each.node_ip for each in running)
    on = " ".join(f"{ip}×{n}" if n > 1 else str(ip) for ip, n in places.items())
    told = (entry.deployed_app_config or {}).get("args", {})
    serves = " ".join(told.get("languages") or (told.get("task", "-"),))
    return (serves, entry.status, f"{len(running)}/{entry.model.wanted}", on or "-")
