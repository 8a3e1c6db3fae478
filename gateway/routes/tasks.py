"""`GET /tasks`: the tasks that this stack serves, and whether each is ready."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from contract.tasks import PATHS
from gateway.backend import Backend
from gateway.observation import find_ready_tasks
from torchserve_backend.catalog import Catalog
from torchserve_backend.checkpoint import find_input_size


def make_blueprint(catalog: Catalog, backend: Backend) -> Blueprint:
    """The tasks route."""
    blueprint = Blueprint("tasks", __name__)

    @blueprint.get("/tasks")
    def tasks() -> list[dict[str, Any]]:
        return [
            {"task": task, "route": f"POST {PATHS[task]}", "ready": is_ready}
            | _describe_input(catalog, task)
            for task, is_ready in find_ready_tasks(catalog, backend).items()
        ]

    return blueprint


def _describe_input(catalog: Catalog, task: str) -> dict[str, Any]:
    """The image size of the task's model, which is known once the model is loaded. Clients
    may send larger images."""
    size = find_input_size(catalog.tasks[task]) if task in catalog.tasks else None
    return {"input": {"height": size.height, "width": size.width}} if size else {}
