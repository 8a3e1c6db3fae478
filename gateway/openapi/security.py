"""How clients send their keys, where the operator asks for them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from gateway import errors


def _name_place(place: str, name: str, description: str) -> dict[str, str]:
    return {"type": "apiKey", "in": place, "name": name, "description": description}


#: One of them is enough.
SCHEMES: dict[str, dict[str, Any]] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": _name_place("header", "X-API-Key", "The key alone."),
    "x-goog-api-key": _name_place(
        "header", "X-Goog-Api-Key", "As Google's clients send it."
    ),
    "deepl-auth-key": _name_place(
        "header", "Authorization", "As DeepL's clients send it: `DeepL-Auth-Key KEY`."
    ),
    **{
        name: _name_place(
            "query", name, f"As {owner} clients send it; also as a field of a body."
        )
        for name, owner in (
            ("api_key", "LibreTranslate's"),
            ("auth_key", "older DeepL"),
            ("key", "Google's"),
        )
    },
}

#: How a key is refused.
REFUSALS = (
    *(errors.InvalidKey, errors.KeyNotAllowed, errors.QuotaExceeded),
    *(errors.RateLimited, errors.KeysUnavailable),
)


@dataclass(frozen=True)
class Keys:
    """Which routes need a key."""

    is_required: bool = False
    open_routes: Collection[str] = ()

    def needs(self, route: str, method: str) -> bool:
        """Whether nobody may ask this route without a key."""
        return self.is_required and not is_open(self.open_routes, route, method)


def is_open(open_routes: Collection[str], route: str, method: str) -> bool:
    """Whether a route is among those that need no key, with any method or with this one."""
    method = "GET" if method == "HEAD" else method
    return route in open_routes or f"{method} {route}" in open_routes
