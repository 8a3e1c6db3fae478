"""`GET /healthz`: whether this process is alive. `GET /readyz`: whether everything in
the map is ready.
"""

from __future__ import annotations

from flask import Blueprint
from typing_extensions import TypedDict

from gateway.api import Services
from gateway.errors import NotReady
from gateway.metrics.status import find_ready, find_ready_tasks, find_reasons
from gateway.openapi.operations import Operation, describe


class Health(TypedDict):
    """Says that the gateway is alive."""

    status: str


class Readiness(TypedDict):
    """The readiness of the whole."""

    status: str
    languages: list[str]
    tasks: list[str]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The health routes."""
    catalog, backend = services.catalog, services.backend
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    @describe(Operation("Whether the gateway is alive"))
    def healthz() -> Health:
        return {"status": "alive"}

    @blueprint.get("/readyz")
    @describe(Operation("Whether everything in the map is ready"))
    def readyz() -> Readiness:
        tasks = find_ready_tasks(catalog, backend)
        ready = find_ready(catalog, backend) | {t: tasks[t] for t in catalog.tasks}
        missing = [name for name, is_ready in ready.items() if not is_ready]
        if missing:
            reasons = find_reasons(catalog, backend)
            raise NotReady(
                f"No worker is READY for {', '.join(missing)}.",
                missing=missing,
                **({"reasons": reasons} if reasons else {}),
            )
        languages = list(catalog.languages)
        return {"status": "ready", "languages": languages, "tasks": list(tasks)}

    return [blueprint]
