"""The ways in which clients send their keys, where the operator asks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from contract.dialects import FOREIGN, OURS, Dialect
from gateway import errors


def _name_place(place: str, name: str, description: str) -> dict[str, str]:
    return {"type": "apiKey", "in": place, "name": name, "description": description}


def _list_places(api: Dialect, sent: str) -> Iterator[tuple[str, dict[str, str]]]:
    if name := api.key_header:
        yield name, _name_place("header", name, f"{sent}.")
    if name := api.key_scheme:
        yield name, _name_place("header", "Authorization", f"{sent}: `{name} KEY`.")
    for name in api.key_fields:
        yield name, _name_place("query", name, f"{sent}; also as a field of a body.")


#: One of them is enough.
SCHEMES: dict[str, dict[str, Any]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": _name_place("header", OURS.key_header or "", "The key alone."),
    **{
        name.lower(): place
        for api in FOREIGN
        for name, place in _list_places(api, f"As {api.title}'s clients send it")
    },
}

#: The refusals of a key.
REFUSALS = (
    *(errors.InvalidKey, errors.KeyNotAllowed, errors.QuotaExceeded),
    *(errors.RateLimited, errors.KeysUnavailable),
)


@dataclass(frozen=True)
class Keys:
    """The routes that need a key."""

    is_required: bool = False
    open_routes: Collection[str] = ()

    def needs(self, route: str, method: str) -> bool:
        """Whether nobody may ask this route without a key."""
        return self.is_required and not is_open(self.open_routes, route, method)


def is_open(open_routes: Collection[str], route: str, method: str) -> bool:
    """Whether a route is among those that need no key, with any method or with this one."""
    method = "GET" if method == "HEAD" else method
    return route in open_routes or f"{method} {route}" in open_routes
