"""What DeepL's API tells a client of its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Usage:
    """A key's characters of this month. A `limit` of None is no limit."""

    count: int
    limit: int | None


class Accounts(Protocol):
    """Keys, and what was used with them."""

    def read_usage(self) -> Usage:
        """What the key of the current request has used this month, and its limit."""


class OpenAccounts:
    """Nobody has a key, and nothing is counted."""

    def read_usage(self) -> Usage:
        """Nothing, without a limit."""
        return Usage(0, None)
