"""`GET /tasks`: the tasks that this stack serves, and whether each is ready."""

from __future__ import annotations

from typing import NotRequired

from flask import Blueprint
from typing_extensions import TypedDict

from catalog import Catalog
from catalog.checkpoint import find_input_size
from contract.tasks import PATHS
from gateway.api import Services
from gateway.metrics.status import find_ready_tasks
from gateway.openapi.operations import Operation, describe


class Size(TypedDict):
    """Pixels of an image."""

    height: int
    width: int


class Task(TypedDict):
    """A task, and the size of images that its model works with."""

    task: str
    route: str
    ready: bool
    input: NotRequired[Size]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The tasks route."""
    catalog, backend = services.catalog, services.backend
    blueprint = Blueprint("tasks", __name__)

    @blueprint.get("/tasks")
    @describe(Operation("The tasks that this stack serves, and whether each is ready"))
    def tasks() -> list[Task]:
        return [
            _describe_task(catalog, task, is_ready=is_ready)
            for task, is_ready in find_ready_tasks(catalog, backend).items()
        ]

    return [blueprint]


def _describe_task(catalog: Catalog, task: str, *, is_ready: bool) -> Task:
    """The image size of the task's model is known once the model is loaded. Clients may send
    larger images."""
    found: Task = {"task": task, "route": f"POST {PATHS[task]}", "ready": is_ready}
    size = find_input_size(catalog.tasks[task]) if task in catalog.tasks else None
    if size:
        found["input"] = {"height": size.height, "width": size.width}
    return found
