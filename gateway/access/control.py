"""Lets requests in that have a valid key: for the right route, not too often, and with
characters left.
"""

import hmac
from contextlib import AbstractContextManager, suppress
from functools import partial

from gevent import sleep

from contract.dialects import FOREIGN, KEY_FIELDS, KEY_HEADERS, OURS
from contract.documents import OWNER_HEADER, read_secret
from documents.storage import NOBODY
from gateway.access import Access
from gateway.access.keys import ApiKey
from gateway.access.limits import Limiter
from gateway.access.registry import Registry
from gateway.access.storage import KeyStorage
from gateway.access.usage import Usage, UsageLedger
from gateway.database import find_database, find_folder
from gateway.errors import BodyTooLarge, InvalidKey, KeyNotAllowed, QuotaExceeded
from gateway.http.bodies import Bodies
from gateway.http.request import (
    WORKER,
    Charge,
    Fields,
    GatewayRequest,
    read_fields,
    read_limit,
)
from gateway.openapi import IN_PIECES
from gateway.settings import Settings

#: The schemes of `Authorization`.
_SCHEMES = {api.key_scheme.lower() for api in (OURS, *FOREIGN) if api.key_scheme}
#: The largest body in which a key is looked for: as large as DeepL takes any. A client
#: without a key can make the gateway read no more than this.
KEY_BODY_BYTES = 128 << 10


class Guard(Access):
    """The keys, usage and limits of one gateway process."""

    is_required = True

    def __init__(self, settings: Settings, bodies: Bodies) -> None:
        """Raises StorageError if the database's URL is wrong."""
        folder = find_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.before, self._bodies = (self.check,), bodies
        self.ledger = UsageLedger(folder / "accounts")
        self._registry = Registry(KeyStorage(find_database(settings)), self.ledger)
        self._limiter = Limiter(folder / "limits", settings.limits_url)
        self._secret = read_secret()

    def check(self, request: GatewayRequest) -> None:
        """Every route needs a key, except those that are open. Without one in a header or in
        the query, as much of the body is read as may hold one; of an upload, nothing. Routes
        that take documents call `admit_form` once they know the fields."""
        operation = request.operation
        if operation is None or request.method == "OPTIONS":
            return
        if operation.is_open:
            self._bodies.read_for_key(request, KEY_BODY_BYTES)
            return
        if self.admit_worker(request):
            return
        token = find_token(request)
        if token is None and operation.takes not in IN_PIECES:
            try:
                self._bodies.read_for_key(request, KEY_BODY_BYTES)
            except BodyTooLarge as error:
                raise InvalidKey(is_given=False) from error
            token = find_token_in_body(request)
        if token is not None or operation.takes != "document":
            self.admit(request, token)

    def admit(self, request: GatewayRequest, token: str | None) -> None:
        """Lets a request in, once its key's limit does. At most half of its time may pass
        meanwhile. Raises InvalidKey, KeyNotAllowed, RateLimited or KeysUnavailable."""
        rule = request.url_rule
        assert rule
        key = self._registry.find(token)
        if not key.grant.allows(rule.rule):
            raise KeyNotAllowed(key.grant.routes)
        limit_s = read_limit(request.environ, request.limit_s)
        wait_s = self._limiter.check(key, limit_s / 2)
        if wait_s:
            sleep(wait_s)
        _note_key(request, key, partial(self._charge, key))

    def admit_worker(self, request: GatewayRequest) -> bool:
        """Lets the program in that translates documents, for their owner: only characters are
        counted then. Raises InvalidKey where the owner's key has been revoked."""
        given = request.environ.get(WORKER)
        expected = self._secret.encode()
        if not given or not hmac.compare_digest(given.encode(), expected):
            return False
        key_id = request.headers.get(OWNER_HEADER, "")
        key = self._registry.find_by_id(key_id)
        _note_key(request, key, partial(self.ledger.charge, key))
        return True

    def admit_form(self, request: GatewayRequest, fields: Fields) -> None:
        """Raises what `admit` raises."""
        if request.charge is None:
            self.admit(request, pick_token(fields))

    def read_usage(self, request: GatewayRequest) -> Usage:
        """Return the usage of a request's key this month, and its limit."""
        return self.ledger.read(self._registry.find_by_id(request.owner))

    def close(self) -> None:
        """Writes what was used."""
        self._registry.stop()

    def _charge(self, key: ApiKey, characters: int) -> AbstractContextManager[None]:
        """Reserves characters. A request that has too few left is not counted as one."""
        try:
            return self.ledger.charge(key, characters)
        except QuotaExceeded:
            self._limiter.give_back(key)
            raise


def _note_key(request: GatewayRequest, key: ApiKey, charge: Charge) -> None:
    request.owner, request.charge = key.id, charge
    request.cache_space = NOBODY if key.grant.shares_cache else key.id


def find_token(request: GatewayRequest) -> str | None:
    """The key in the headers or in the query, None without one. Nothing of the body is read."""
    shown: str = request.environ.get("HTTP_AUTHORIZATION", "")
    scheme, _, token = shown.partition(" ")
    if scheme.lower() in _SCHEMES and token.strip():
        return token.strip()
    given = (request.headers.get(name, "").strip() for name in KEY_HEADERS)
    return next(filter(None, given), None) or pick_token(request.args)


def find_token_in_body(request: GatewayRequest) -> str | None:
    """The key among the fields of the body, None without one. Raises MalformedRequest for a
    damaged body: nobody can say whether it had a key."""
    with suppress(BodyTooLarge):  # it has no fields that are read
        return pick_token(read_fields(request))
    return None


def pick_token(fields: Fields) -> str | None:
    """The key among a request's fields."""
    given = (fields.get(name) for name in KEY_FIELDS)
    return next((key for key in given if isinstance(key, str) and key), None)
