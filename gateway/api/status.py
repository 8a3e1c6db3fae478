"""`GET /status`: what each language and task is doing, as running totals. Two answers tell
what has happened in between. `GET /metrics`: the same for Prometheus.
"""

from __future__ import annotations

from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST
from typing_extensions import TypedDict

from gateway.api import Services
from gateway.metrics.registry import BUCKETS
from gateway.metrics.status import Served
from gateway.openapi.operations import Operation, describe
from gateway.openapi.refusals import FROM_THIS_MACHINE_ONLY


class ServedStatus(TypedDict):
    """A language, or a task without one. Counts begin with the gateway. `latency` has the
    requests that took at most as long as each of `bounds_s`, and at last all of them."""

    task: str
    language: str | None
    model: str
    device: str
    workers: int
    ready: bool
    batch_size: int | None
    waiting_rows: int
    queued_rows: int
    requests: int
    errors: int
    rows: int | None
    batches: int | None
    latency: list[int]


class Status(TypedDict):
    """The status of all models, and the time of the answer in seconds of some clock."""

    at_s: float
    bounds_s: list[float]
    served: list[ServedStatus]


def make_blueprints(services: Services) -> list[Blueprint]:
    """The routes for those who watch the service."""
    blueprint = Blueprint("status", __name__)

    @blueprint.get("/status")
    @describe(Operation("What each language and task is doing, as running totals"))
    def status() -> Status:
        found = services.figures.read()
        return {
            "at_s": round(found.at_s, 3),
            "bounds_s": list(BUCKETS),
            "served": [_describe(one) for one in found.served],
        }

    @blueprint.get("/metrics")
    @describe(
        Operation(
            "Prometheus metrics, from this machine only",
            refusals=(FROM_THIS_MACHINE_ONLY,),
            media=("text/plain",),
        )
    )
    def metrics() -> Response:
        return Response(services.figures.render(), content_type=CONTENT_TYPE_LATEST)

    return [blueprint]


def _describe(one: Served) -> ServedStatus:
    return {
        "task": one.model.task,
        "language": one.language,
        "model": one.model.name,
        "device": one.model.device,
        "workers": one.model.workers,
        "ready": one.is_ready,
        "batch_size": one.batch_size,
        "waiting_rows": one.waiting_rows,
        "queued_rows": one.queued_rows,
        "requests": one.requests,
        "errors": one.errors,
        "rows": one.rows,
        "batches": one.batches,
        "latency": list(one.latency),
    }
