"""Keys: how they are made, read and compared. A key is `bg_`, its public id, and a secret of
256 random bits. No dictionary has such a secret, so that one round of SHA-256 is hash enough.
"""

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

_ID_BYTES, _SECRET_BYTES = 6, 32
_TOKEN = re.compile(rf"bg_([0-9a-f]{{{2 * _ID_BYTES}}})_[\w-]{{43}}", re.ASCII)


@dataclass(frozen=True)
class Grant:
    """The rights of a key. None is no limit, and no routes are all routes."""

    characters_per_month: int | None = None
    requests_per_minute: int | None = None
    routes: tuple[str, ...] = ()
    #: Requests that may come at once; without a number, those of a minute.
    burst: int | None = None
    #: Whether its translated sentences are kept for all keys that share theirs.
    shares_cache: bool = False

    def allows(self, route: str) -> bool:
        """Whether the route is one of these; `/v2/*` is all that begin with `/v2/`."""
        return not self.routes or any(
            route.startswith(given[:-1]) if given.endswith("*") else route == given
            for given in self.routes
        )


@dataclass(frozen=True)
class ApiKey:
    """A key as it is stored, without its secret."""

    id: str
    name: str
    digest: str
    grant: Grant = Grant()
    #: Unix seconds.
    created_at: int = 0
    revoked_at: int | None = None

    def matches(self, token: str) -> bool:
        """Whether the token is this key's, in a time that does not depend on the token."""
        return hmac.compare_digest(self.digest, hash_token(token))


def make_token() -> tuple[str, str]:
    """A new token and its id."""
    key_id = secrets.token_hex(_ID_BYTES)
    return f"bg_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}", key_id


def read_id(token: str) -> str | None:
    """The id in a token; None if it has not the form of one."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def hash_token(token: str) -> str:
    """Return the hash of a token, which is all that is stored of it."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_routes(given: Sequence[str]) -> tuple[str, ...]:
    """Routes from options such as `/translate,/v2/*`. Raises ValueError."""
    routes = tuple(part.strip() for text in given for part in text.split(","))
    for route in routes:
        if not re.fullmatch(r"/[^\s*?#]*\*?", route):
            raise ValueError(
                f"expected a path such as /translate or /v2/*, found {route!r}"
            )
    return routes
