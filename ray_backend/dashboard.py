"""The HTTP API of Ray's dashboard: what runs on the cluster, on which machines, and the one
call that deploys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import requests
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_TIMEOUT_S = 20
#: Ray starts Serve's controller with the first deployment.
_DEPLOY_S = 90
#: The most characters that are quoted of an answer that is not understood.
_QUOTED = 500
_RUNNING = "RUNNING"
_REFUSED = (requests.codes.unauthorized, requests.codes.forbidden)


class DashboardError(Exception):
    """Ray's dashboard does not answer, or refused a call; the message quotes it."""


class _Found(BaseModel):
    """The parts of Ray's answer that are of use here."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ReplicaStatus(_Found):
    """A copy of a model."""

    state: str
    #: None until Ray has found a machine for it.
    node_ip: str | None = None
    #: The number of its process there.
    pid: int | None = None

    @property
    def is_running(self) -> bool:
        return self.state == _RUNNING


class Deployment(_Found):
    """The replicas of an application."""

    message: str = ""
    deployment_config: dict[str, Any] = Field({})
    #: The number of wanted replicas.
    wanted: int = Field(0, validation_alias="target_num_replicas")
    #: The resources of each replica, such as `{"CPU": 0.1, "GPU": 0.5}`.
    needs: dict[str, float] = Field({}, validation_alias="required_resources")
    replicas: tuple[ReplicaStatus, ...] = ()

    @property
    def unplaced(self) -> int:
        """The number of replicas without a machine."""
        return sum(each.node_ip is None for each in self.replicas)


class Application(_Found):
    """A model of the map, as Serve has it."""

    status: str
    message: str = ""
    #: The deployed configuration, key by key.
    deployed_app_config: dict[str, Any] | None = None
    deployments: dict[str, Deployment] = Field({})

    @property
    def model(self) -> Deployment:
        """Its one deployment, which Serve makes a while after the application."""
        return next(iter(self.deployments.values()), Deployment())

    @property
    def is_running(self) -> bool:
        return self.status == _RUNNING

    @property
    def has_failed(self) -> bool:
        """Whether Serve tries it no more."""
        return self.status == "DEPLOY_FAILED"

    @property
    def reason(self) -> str:
        """The reason why it does not run: the last line of Ray's message, which a replica
        has raised."""
        said = f"{self.message}\n{self.model.message}"
        return said.strip().rpartition("\n")[2]


class Machine(_Found):
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
        return self._read("/api/serve/applications/", _APPLICATIONS, "applications")

    def list_machines(self) -> tuple[Machine, ...]:
        """The machines that are there now."""
        path = "/api/v0/nodes?detail=1&limit=10000"
        machines = self._read(path, _MACHINES, "data", "result", "result")
        return tuple(machine for machine in machines if machine.state == "ALIVE")

    def deploy(self, config: Mapping[str, Any]) -> None:
        """Makes Serve run exactly what the configuration says. Ray reconciles it, without
        anybody waiting for it."""
        self._call("PUT", "/api/serve/applications/", json=config, timeout=_DEPLOY_S)

    def _read(self, path: str, shape: TypeAdapter[_Shape], *keys: str) -> _Shape:
        text = self._call("GET", path).text
        try:
            content = json.loads(text)
            for key in keys:
                content = content[key]
            return shape.validate_python(content)
        except (ValueError, LookupError, TypeError) as error:
            raise DashboardError(
                f"{self._url}{path} is not understood: {text[:_QUOTED]}"
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
                f"Ray's dashboard at {self._url} does not know the token in "
                f"{self._token_file}: copy the file from the head."
            )
        if not response.ok:
            said = response.text[:_QUOTED] or "an empty answer"
            raise DashboardError(
                f"{self._url}{path} answered {response.status_code} {said}"
            )
        return response
