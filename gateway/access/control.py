"""Lets requests in that have a valid key: for the right route, not too often, and with
characters left.
"""

from __future__ import annotations

from functools import partial

from flask import Flask, g, request

from gateway.access import OPEN_ROUTES, Access
from gateway.access.finding import find_token
from gateway.access.keys import Key
from gateway.access.limits import Limiter
from gateway.access.registry import Registry
from gateway.access.storage import Storage
from gateway.access.usage import Ledger, Usage
from gateway.database import find_database, find_folder
from gateway.errors import KeyNotAllowed
from gateway.settings import Settings
from gateway.transport.bodies import is_upload
from gateway.transport.caller import CHARGE


class Guard(Access):
    """The keys, usage and limits of one gateway process."""

    is_required = True

    def __init__(self, registry: Registry, ledger: Ledger, limiter: Limiter) -> None:
        self.ledger = ledger
        self._registry = registry
        self._limiter = limiter

    @classmethod
    def open(cls, settings: Settings) -> Guard:
        """The guard of this stack. Raises StorageError if the database's URL is wrong."""
        folder = find_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        storage, ledger = Storage(find_database(settings)), Ledger(folder / "usage")
        registry = Registry(storage, ledger)
        registry.start()
        return cls(registry, ledger, Limiter(folder / "limits", settings.limits_url))

    def check(self, token: str | None, route: str) -> Key:
        """The key of a token, and counts its request. Raises InvalidKey, KeyNotAllowed,
        RateLimited or KeysUnavailable."""
        key = self._registry.find(token)
        if not key.grant.allows(route):
            raise KeyNotAllowed(key.grant.routes)
        self._limiter.check(key)
        return key

    def read_usage(self) -> Usage:
        """What the key of the current request has used this month, and its limit."""
        key = g.get("key")
        return self.ledger.read(key) if key else super().read_usage()

    def close(self) -> None:
        """Writes what was used."""
        self._registry.stop()


def register_guard(app: Flask, guard: Guard) -> None:
    """Every route needs a key, except those that are open. The body has been read, unless it
    is an upload."""

    @app.before_request
    def check_key() -> None:
        rule = request.url_rule
        if rule is None or rule.rule in OPEN_ROUTES or request.method == "OPTIONS":
            return
        token = find_token(request, has_body=not is_upload(app))
        g.key = guard.check(token, rule.rule)
        request.environ[CHARGE] = partial(guard.ledger.charge, g.key)
