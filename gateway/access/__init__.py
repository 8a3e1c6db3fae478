"""Decides who may use the service, how much, and how often. Keys are off by default: then
nothing here costs a request anything, and the libraries for databases are not loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Flask, g

from contract.dialects import FOREIGN
from documents.storage import NOBODY
from gateway.access.usage import Usage
from gateway.http.bodies import Bodies
from gateway.settings import Settings

__all__ = ["OPEN_ROUTES", "Access", "Usage", "find_owner", "register_access"]

#: Routes without a key: health, metrics, and what clients read before they have one. One with
#: a method is open for that only.
OPEN_ROUTES = frozenset(
    {
        *("/healthz", "/readyz", "/metrics", "/languages", "/openapi.json"),
        *("/docs", "/docs/<name>", "GET /", "/page/<digest>/<name>"),
        *(route for api in FOREIGN for route in api.open_routes),
    }
)


def find_owner() -> str:
    """The id of the current request's key, NOBODY where there are no keys: whose glossaries
    and documents it sees."""
    key = g.get("key")
    return key.id if key else NOBODY


class Access:
    """The interface of access for routes; here while keys are off. `control.py` has the
    other."""

    #: Whether requests without a key are refused.
    is_required = False

    def read_usage(self) -> Usage:
        """Return the current key's usage of this month, and its limit."""
        return Usage(0, None)

    def find_owner(self, fields: Mapping[str, Any]) -> str:
        """The owner of what the current request makes or asks for; a form's fields may have
        the key."""
        return find_owner()

    def close(self) -> None:
        """Writes what was used."""


def register_access(app: Flask, settings: Settings, bodies: Bodies) -> Access:
    """From now on requests need a key, if the settings say so: before their bodies are read,
    unless these may have it."""
    if settings.keys == "off":
        return Access()
    from gateway.access.control import Guard, register_guard

    guard = Guard.open(settings)
    register_guard(app, guard, bodies)
    return guard
