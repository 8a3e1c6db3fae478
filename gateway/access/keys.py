"""Makes, reads and compares keys. A key is `bg_`, its public id, and a secret of 256 random
bits. No dictionary contains the secret, so one round of SHA-256 is a sufficient hash.
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
    """The rights of a key. None means no limit, and no routes means all routes."""

    characters_per_month: int | None = None
    requests_per_minute: int | None = None
    routes: tuple[str, ...] = ()
    #: Requests allowed at once; None means those of a minute.
    burst: int | None = None
    #: Whether its cached sentences are shared with all other keys that share theirs.
    shares_cache: bool = False

    def allows(self, route: str) -> bool:
        """Whether the key may use the route; `/v2/*` allows all that begin with `/v2/`."""
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
        """Whether the token is this key's. The time does not depend on the token."""
        return hmac.compare_digest(self.digest, hash_token(token))


def make_token() -> tuple[str, str]:
    """Return a new token and its id."""
    key_id = secrets.token_hex(_ID_BYTES)
    return f"bg_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}", key_id


def read_id(token: str) -> str | None:
    """Return the id in a token, or None if the token is malformed."""
    found = _TOKEN.fullmatch(token)
    return found[1] if found else None


def hash_token(token: str) -> str:
    """Return the hash of a token, the only part of it that is stored."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_routes(given: Sequence[str]) -> tuple[str, ...]:
    """Return the routes of options such as `/translate,/v2/*`. Raises ValueError."""
    routes = tuple(part.strip() for text in given for part in text.split(","))
    for route in routes:
        if not (re.fullmatch(r"/[^\s*?#]*\*?", route) and route.isprintable()):
            raise ValueError(
                f"expected a path such as /translate or /v2/*, found {route!r}"
            )
    return routes
