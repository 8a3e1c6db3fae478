"""`GET /healthz`: this process lives. `GET /readyz`: every language can be translated into."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from gateway.backend import Backend
from gateway.errors import NotReady
from gateway.observation import find_ready
from torchserve_backend.catalog import Catalog


def make_blueprint(catalog: Catalog, backend: Backend) -> Blueprint:
    """The health routes."""
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    def healthz() -> dict[str, Any]:
        return {"status": "alive"}

    @blueprint.get("/readyz")
    def readyz() -> dict[str, Any]:
        ready = find_ready(catalog, backend)
        missing = [code for code, is_ready in ready.items() if not is_ready]
        if missing:
            raise NotReady(
                f"No worker is READY for {', '.join(missing)}.", missing=missing
            )
        return {"status": "ready", "languages": list(catalog.languages)}

    return blueprint
