"""Lets requests in that have a valid key: for the right route, not too often, and with
characters left.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from flask import Flask, g, request

from contract.documents import OWNER_HEADER, WORKER_HEADER
from documents.paths import read_secret
from gateway.access import OPEN_ROUTES, Access, find_owner
from gateway.access.finding import (
    KEY_BODY_BYTES,
    find_token,
    find_token_in_body,
    pick_token,
)
from gateway.access.keys import ApiKey
from gateway.access.limits import Limiter
from gateway.access.registry import Registry
from gateway.access.storage import KeyStorage
from gateway.access.usage import Usage, UsageLedger
from gateway.database import find_database, find_folder
from gateway.errors import BodyTooLarge, InvalidKey, KeyNotAllowed, QuotaExceeded
from gateway.http.bodies import Bodies, is_upload, takes_document
from gateway.http.caller import CHARGE
from gateway.openapi.security import is_open
from gateway.settings import Settings


class Guard(Access):
    """The keys, usage and limits of one gateway process."""

    is_required = True

    def __init__(
        self, registry: Registry, ledger: UsageLedger, limiter: Limiter, secret: str
    ) -> None:
        self.ledger = ledger
        self._secret = secret
        self._registry = registry
        self._limiter = limiter

    @classmethod
    def open(cls, settings: Settings) -> Guard:
        """The guard of this stack. Raises StorageError if the database's URL is wrong."""
        folder = find_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        storage, ledger = (
            KeyStorage(find_database(settings)),
            UsageLedger(folder / "accounts"),
        )
        registry = Registry(storage, ledger)
        registry.start()
        return cls(
            registry,
            ledger,
            Limiter(folder / "limits", settings.limits_url),
            read_secret(),
        )

    def admit(self, token: str | None) -> None:
        """Lets the current request in. Raises what `check` raises."""
        rule = request.url_rule
        assert rule
        key = self.check(token, rule.rule)
        g.key = key
        request.environ[CHARGE] = partial(self._charge, key)

    def admit_worker(self) -> bool:
        """Lets the program in that translates documents, for their owner: only characters are
        counted then. Raises InvalidKey where the owner's key has been revoked."""
        given = request.headers.get(WORKER_HEADER)
        expected = self._secret.encode()
        if not given or not hmac.compare_digest(given.encode(), expected):
            return False
        key_id = request.headers.get(OWNER_HEADER, "")
        g.key = key = self._registry.find_by_id(key_id)
        request.environ[CHARGE] = partial(self.ledger.charge, key)
        return True

    def find_owner(self, fields: Mapping[str, Any]) -> str:
        """The key's id. Raises what `check` raises."""
        if "key" not in g:
            self.admit(pick_token(fields))
        return find_owner()

    def check(self, token: str | None, route: str) -> ApiKey:
        """The key of a token, and counts its request. Raises InvalidKey, KeyNotAllowed,
        RateLimited or KeysUnavailable."""
        key = self._registry.find(token)
        if not key.grant.allows(route):
            raise KeyNotAllowed(key.grant.routes)
        self._limiter.check(key)
        return key

    def read_usage(self) -> Usage:
        """Return the current key's usage of this month, and its limit."""
        key = g.get("key")
        return self.ledger.read(key) if key else super().read_usage()

    def close(self) -> None:
        """Writes what was used."""
        self._registry.stop()
        self._limiter.close()

    @contextmanager
    def _charge(self, key: ApiKey, characters: int) -> Iterator[None]:
        """Counts characters. A request that has too few left is not counted as one."""
        with ExitStack() as charged:
            try:
                charged.enter_context(self.ledger.charge(key, characters))
            except QuotaExceeded:
                self._limiter.give_back(key)
                raise
            yield


def register_guard(app: Flask, guard: Guard, bodies: Bodies) -> None:
    """Every route needs a key, except those that are open. Without one in a header or in the
    query, as much of the body is read as may hold one; of an upload, nothing. Routes that
    take documents call `find_owner` once they know the fields."""

    @app.before_request
    def check_key() -> None:
        rule = request.url_rule
        if rule is None or request.method == "OPTIONS":
            return
        if is_open(OPEN_ROUTES, rule.rule, request.method):
            bodies.read_for_key(KEY_BODY_BYTES)
            return
        if guard.admit_worker():
            return
        token = find_token(request)
        if token is None and not is_upload(app):
            try:
                bodies.read_for_key(KEY_BODY_BYTES)
            except BodyTooLarge as error:
                raise InvalidKey(is_given=False) from error
            token = find_token_in_body(request)
        if token is not None or not takes_document(app):
            guard.admit(token)
