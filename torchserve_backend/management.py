"""A client of TorchServe's management API, which lists, describes and changes registered
models. It also reads TorchServe's key file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import requests

from catalog import Model

if TYPE_CHECKING:  # the gateway needs no archiver
    from torchserve_backend.archiver import Desired

_TIMEOUT_S = 10
#: The names in one answer. TorchServe never returns more.
_PAGE = 100
#: The characters quoted from an answer that is not TorchServe's.
_QUOTED = 200


class ManagementError(Exception):
    """TorchServe refused a call or failed; the message quotes it."""


@dataclass(frozen=True)
class Registered:
    """A model as TorchServe describes it."""

    name: str
    version: str
    batch_size: int
    max_batch_delay: int
    min_workers: int
    ready_workers: int
    pending_requests: int
    #: Identifies the version and its workers: after a change, the weights may differ.
    life: str

    @property
    def is_ready(self) -> bool:
        return self.ready_workers > 0

    def is_unloaded(self, model: Model) -> bool:
        """Whether its workers were stopped while unused. The next request starts them again."""
        return bool(model.settings.idle_unload_s) and not self.min_workers

    def serves(self, model: Model) -> bool:
        """Whether it answers for the model, now or once it is reloaded."""
        return self.is_ready or self.is_unloaded(model)


def read_key(path: Path, kind: str) -> str:
    """Return the `management` or `inference` key that TorchServe wrote at its start. Empty if
    there is none: tokens are disabled, or TorchServe has not started yet."""
    try:
        return str(json.loads(path.read_text("utf-8"))[kind]["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


class Management:
    """A client of the management API. Its calls raise ManagementError."""

    def __init__(self, url: str, key_file: Path) -> None:
        self._url = url
        self._key_file = key_file
        self._session = requests.Session()
        self._session.trust_env = False

    def names(self) -> list[str]:
        """Return the names of all registered models."""
        names: list[str] = []
        page: dict[str, Any] = {"nextPageToken": 0}
        while "nextPageToken" in page:
            token = page["nextPageToken"]
            page = self._call("GET", "/models", limit=_PAGE, next_page_token=token)
            names += (model["modelName"] for model in page["models"])
        return names

    def versions(self, name: str) -> list[str]:
        """Return the versions of a registered model."""
        return [
            each["modelVersion"] for each in self._call("GET", f"/models/{name}/all")
        ]

    def describe(self, name: str, version: str = "") -> Registered | None:
        """Return the state of a model's default or given version; None if not registered."""
        response = self._send("GET", f"/models/{name}/{version}".rstrip("/"))
        if response.status_code == requests.codes.not_found:
            return None
        model = self._check_response(response)[0]
        workers = model["workers"]
        keys = ("id", "startTime", "pid")  # a restarted worker keeps the first two
        lives = sorted(str([each.get(key) for key in keys]) for each in workers)
        return Registered(
            name=name,
            version=model["modelVersion"],
            batch_size=model["batchSize"],
            max_batch_delay=model["maxBatchDelay"],
            min_workers=model["minWorkers"],
            ready_workers=sum(each["status"] == "READY" for each in workers),
            pending_requests=model.get("jobQueueStatus", {}).get("pendingRequests", 0),
            life=", ".join((model["modelVersion"], *lives)),
        )

    def register(self, desired: Desired) -> None:
        """Register an archive of the model store and start its workers, without waiting for
        them. A registered version stays unchanged, and the first one is the default."""
        response = self._send(
            "POST",
            "/models",
            url=desired.archive,
            model_name=desired.name,
            batch_size=desired.model.settings.batch_size,
            max_batch_delay=desired.model.settings.max_batch_delay,
            initial_workers=desired.model.workers,
            synchronous="false",
        )
        if response.status_code != requests.codes.conflict:
            self._check_response(response)

    def scale(self, name: str, workers: int, *, wait: bool = False) -> None:
        """Set the number of workers; with `wait`, return when it is reached."""
        self._call(
            "PUT",
            f"/models/{name}",
            min_worker=workers,
            max_worker=workers,
            synchronous=str(wait).lower(),
        )

    def set_default(self, name: str, version: str) -> None:
        """Make a registered version the one that answers for its model."""
        self._call("PUT", f"/models/{name}/{version}/set-default")

    def unregister(self, name: str, version: str) -> None:
        """Remove a version and stop its workers. The rows of its current batch get an error;
        rows in its queue are never answered."""
        self._call("DELETE", f"/models/{name}/{version}")

    def _call(self, method: str, path: str, **params: Any) -> Any:
        return self._check_response(self._send(method, path, **params))

    def _send(self, method: str, path: str, **params: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {read_key(self._key_file, 'management')}"}
        try:
            return self._session.request(
                method,
                self._url + quote(path),  # an operator's model may be called `ko?`
                params=params,
                headers=headers,
                timeout=_TIMEOUT_S,
            )
        except requests.RequestException as error:
            raise ManagementError(
                f"{self._url} does not answer: {type(error).__name__}"
            ) from error

    def _check_response(self, response: requests.Response) -> Any:
        try:
            content = response.json()
            if response.ok:
                return content
            said = f"{content['type']}: {content['message']}"
        except (ValueError, KeyError, TypeError):
            said = response.text[:_QUOTED] or "an empty answer"
        raise ManagementError(f"{response.url} answered {response.status_code} {said}")
