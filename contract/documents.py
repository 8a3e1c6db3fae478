"""The secret with which the program for documents shows the gateway for whom it asks."""

from __future__ import annotations

from typing import Final

#: The secret that only programs of this stack can read.
WORKER_HEADER: Final = "X-Babelgate-Worker"
#: The id of the key that pays.
OWNER_HEADER: Final = "X-Babelgate-Key-Id"
