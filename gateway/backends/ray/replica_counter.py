"""How many replicas a model has now, where Ray adds and removes them by itself: as many as
have answered lately.
"""

from __future__ import annotations

import time

#: How long a replica counts after an answer, and how long a count is good for.
_REMEMBERED_S = 10.0
_COUNTED_S = 0.2


class ReplicaCounter:
    """The replicas of one model that this process has heard of."""

    def __init__(self, fewest: int, most: int) -> None:
        self._fewest = fewest
        self._most = most
        self._heard_at: dict[str, float] = {}
        self._count, self._counted_at = fewest, 0.0

    def hear(self, replica: str) -> None:
        """Notes that this one has answered."""
        if self._fewest < self._most:
            self._heard_at[replica] = time.monotonic()

    def count(self) -> int:
        """Count the replicas heard of in the last seconds, within the map's bounds. So a
        model gets at once what its replicas can use, and with it the work for which Ray
        adds others."""
        now = time.monotonic()
        if now > self._counted_at + _COUNTED_S:
            last = now - _REMEMBERED_S
            self._heard_at = {n: at for n, at in self._heard_at.items() if at > last}
            self._count = min(self._most, max(self._fewest, len(self._heard_at)))
            self._counted_at = now
        return self._count
