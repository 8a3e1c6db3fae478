"""What the routes need to know of a request's key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Usage:
    """Characters of this month: those translated, and the most, if there is one."""

    characters: int = 0
    limit: int | None = None


class Accounts(Protocol):
    """Keys and what was used with them."""

    @property
    def is_key_required(self) -> bool:
        """Whether requests without a key are refused."""

    def find_usage(self) -> Usage:
        """The usage of the current request's key."""


class OpenAccounts:
    """Everybody may translate, and nothing is counted."""

    is_key_required = False

    def find_usage(self) -> Usage:
        """Nothing."""
        return Usage()
