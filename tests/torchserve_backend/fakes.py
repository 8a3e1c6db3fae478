"""TorchServe's management API as a WSGI application and as a client that takes notes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from catalog import Model, TranslationSection
from torchserve_backend.archiver import Desired
from torchserve_backend.management import Management, ManagementError, Registered

Answer = tuple[int, Any]


@dataclass
class FakeTorchServe:
    """Knows the archives of a store (name: version) and what is registered."""

    url: str = ""
    key: str = "m-key"
    store: dict[str, str] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Every request: method, path and parameters.
    calls: list[str] = field(default_factory=list)
    #: Status and body that every request gets instead of its answer.
    instead: tuple[int, bytes] | None = None

    def add(self, name: str, version: str = "1.0", **state: Any) -> None:
        """Registers a model with one worker that is ready."""
        self.models[name] = {
            "modelName": name,
            "modelVersion": version,
            "minWorkers": 1,
            "maxWorkers": 1,
            "batchSize": 64,
            "maxBatchDelay": 100,
            "workers": [{"id": "9100", "status": "READY", "gpu": False}],
            "jobQueueStatus": {"remainingCapacity": 4096, "pendingRequests": 0},
        } | state

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        query = environ["QUERY_STRING"]
        self.calls.append(f"{method} {path}" + (f"?{query}" if query else ""))
        status, content = self._answer(environ, method, path, dict(parse_qsl(query)))
        start_response(f"{status} Said", [("Content-Type", "application/json")])
        return [content if isinstance(content, bytes) else json.dumps(content).encode()]

    def _answer(
        self, environ: dict[str, Any], method: str, path: str, given: dict[str, str]
    ) -> Answer:
        if self.instead:
            return self.instead
        if (
            environ.get("HTTP_AUTHORIZATION", "").strip()
            != f"Bearer {self.key}".strip()
        ):
            return _refuse(400, "InvalidKeyException", "Token Authorization failed.")
        if path == "/models":
            return self._register(given) if method == "POST" else self._list(given)
        name = path.split("/")[2]
        if name not in self.models:
            return _refuse(404, "ModelNotFoundException", f"Model not found: {name}")
        if method == "PUT":
            return self._scale(name, int(given["min_worker"]))
        if method == "DELETE":
            del self.models[name]
            return 200, {"status": f'Model "{name}" unregistered'}
        return 200, [self.models[name]]

    def _list(self, given: dict[str, str]) -> Answer:
        """A page; where it is full, the next one is named, even if nothing is there."""
        start = int(given.get("next_page_token", 0))
        end = start + min(int(given["limit"]), 100)
        page = [{"modelName": name} for name in sorted(self.models)[start:end]]
        next_page = {"nextPageToken": str(end)} if end <= len(self.models) else {}
        return 200, {"models": page} | next_page

    def _register(self, given: dict[str, str]) -> Answer:
        name = given["model_name"]
        if name in self.models:
            return _refuse(409, "ConflictStatusException", "already registered")
        if given["url"] not in self.store:
            return _refuse(404, "ModelNotFoundException", f"{given['url']} not found")
        self.add(
            name,
            self.store[given["url"]],
            batchSize=int(given["batch_size"]),
            maxBatchDelay=int(given["max_batch_delay"]),
        )
        return 202, {"status": "Processing worker updates..."}

    def _scale(self, name: str, workers: int) -> Answer:
        ready = [{"id": str(9100 + i), "status": "READY"} for i in range(workers)]
        self.models[name] |= {"minWorkers": workers, "workers": ready}
        return 202, {"status": "Processing worker updates..."}


def _refuse(code: int, kind: str, message: str) -> Answer:
    return code, {"code": code, "type": kind, "message": message}


def want(name: str, version: str = "1.0-ab", **settings: Any) -> Desired:
    """A model for a language, as a map with these settings wants it."""
    section = TranslationSection(**settings)
    model = Model(name, "translation", (name,), ("cpu",), section)
    return Desired(model, f"{name}.mar", version)


class FakeManagement(Management):
    """Writes calls down; `refuses` says at which of them it raises ManagementError."""

    def __init__(
        self,
        found: dict[str, Registered] | None = None,
        *,
        refuses: tuple[str, ...] = (),
    ) -> None:
        super().__init__("http://nowhere.invalid", Path("none"))
        self.found = found or {}
        self.calls: list[str] = []
        self._refuses = refuses

    def names(self) -> list[str]:
        return list(self.found)

    def describe(self, name: str) -> Registered | None:
        return self.found.get(name)

    def register(
        self,
        archive: str,
        name: str,
        *,
        batch_size: int,
        max_batch_delay: int,
        workers: int,
    ) -> None:
        self._note(
            f"register {archive} {name} {batch_size} {max_batch_delay} {workers}"
        )

    def scale(self, name: str, workers: int, *, wait: bool = False) -> None:
        self._note(f"scale {name} {workers}" + (" wait" if wait else ""))

    def unregister(self, name: str, version: str) -> None:
        self._note(f"unregister {name} {version}")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call.startswith(self._refuses):
            raise ManagementError(f"refused: {call}")
