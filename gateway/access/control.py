"""Admits requests with a key that is valid, allows the route and is within its limits."""

import hmac
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
#: The largest body that is searched for a key: DeepL accepts none larger. A client without a
#: key can make the gateway read no more than this.
KEY_BODY_BYTES = 128 << 10


class Guard(Access):
    """The keys, usage and limits of one gateway process."""

    is_required = True

    def __init__(self, settings: Settings, bodies: Bodies) -> None:
        """Open the database. Raises StorageError if its URL is wrong."""
        folder = find_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.before = (self.check,)
        self._bodies = bodies
        self.ledger = UsageLedger(folder / "accounts")
        self._registry = Registry(KeyStorage(find_database(settings)), self.ledger)
        self._limiter = Limiter(folder / "limits", settings.limits_url)
        self._secret = read_secret()

    def check(self, request: GatewayRequest) -> None:
        """Require a key, except for open routes. Without one in a header or the query, read the
        body up to `KEY_BODY_BYTES` to find it, but nothing of an upload. Routes for documents
        call `admit_form` once they have read the fields."""
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
        """Admit a request once its key's limit allows it, after at most half of the request's
        time. Raises InvalidKey, KeyNotAllowed, RateLimited or KeysUnavailable."""
        rule = request.url_rule
        assert rule
        key = self._registry.find(token)
        if not key.grant.allows(rule.rule):
            allowed = list(key.grant.routes)
            said = f"This key is only for {', '.join(allowed)}."
            raise KeyNotAllowed(said, allowed=allowed)
        limit_s = read_limit(request.environ, request.limit_s)
        wait_s = self._limiter.check(key, limit_s / 2)
        if wait_s:
            sleep(wait_s)
        _note_key(request, key, partial(self._charge, key))

    def admit_worker(self, request: GatewayRequest) -> bool:
        """Admit the documents worker on behalf of a document's owner, or return False. Only
        characters are counted, and none of a document that was accepted without a key. Raises
        InvalidKey if the owner's key has been revoked."""
        given = request.environ.get(WORKER)
        if not given or not hmac.compare_digest(given.encode(), self._secret.encode()):
            return False
        if owner := request.headers.get(OWNER_HEADER):
            key = self._registry.find_by_id(owner)
            _note_key(request, key, partial(self.ledger.charge, key))
        return True

    def admit_form(self, request: GatewayRequest, fields: Fields) -> None:
        if request.charge is None:
            self.admit(request, pick_token(fields))

    def read_usage(self, request: GatewayRequest) -> Usage:
        return self.ledger.read(self._registry.find_by_id(request.owner))

    def close(self) -> None:
        self._registry.stop()

    @contextmanager
    def _charge(self, key: ApiKey, characters: int) -> Iterator[None]:
        """Reserve characters. If too few are left, the request does not count as one."""
        try:
            with self.ledger.charge(key, characters):
                yield
        except QuotaExceeded:
            self._limiter.give_back(key)
            raise


def _note_key(request: GatewayRequest, key: ApiKey, charge: Charge) -> None:
    request.owner, request.charge = key.id, charge
    request.cache_space = NOBODY if key.grant.shares_cache else key.id


def find_token(request: GatewayRequest) -> str | None:
    """Return the key in the headers or the query, or None. The body is not read."""
    shown: str = request.environ.get("HTTP_AUTHORIZATION", "")
    scheme, _, token = shown.partition(" ")
    if scheme.lower() in _SCHEMES and token.strip():
        return token.strip()
    given = (request.headers.get(name, "").strip() for name in KEY_HEADERS)
    return next(filter(None, given), None) or pick_token(request.args)


def find_token_in_body(request: GatewayRequest) -> str | None:
    """Return the key among the fields of the body, or None. Raises MalformedRequest for a
    damaged body, in which a key cannot be found."""
    with suppress(BodyTooLarge):  # its fields are not read
        return pick_token(read_fields(request))
    return None


def pick_token(fields: Fields) -> str | None:
    """Return the key among a request's fields, or None."""
    given = (fields.get(name) for name in KEY_FIELDS)
    return next((key for key in given if isinstance(key, str) and key), None)
