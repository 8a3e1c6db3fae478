"""The valid keys, as last read from the database. A thread reads them twice a second and writes
the usage; only requests with unknown keys wait for it.
"""

import logging
import time
from collections.abc import Mapping

import gevent
from gevent.event import Event

from gateway.access.keys import ApiKey, read_id
from gateway.access.storage import KeyStorage
from gateway.access.usage import UsageLedger
from gateway.database.connections import StorageError
from gateway.errors import InvalidKey, KeysUnavailable
from gateway.redaction import describe
from gateway.threads import call_in_thread

log = logging.getLogger(__name__)

#: Seconds between two syncs with the database, and the fewest if an unknown key needs one.
_EVERY_S, _LEAST_S = 0.5, 0.1
#: Seconds for which a request with an unknown key waits for a sync.
_PATIENCE_S = 5.0
#: The timeout of a sync. One that hangs occupies its thread, and the next one uses another.
_LOOK_S = 8.0
#: The timeout of the first sync, and of the last.
_START_S = 15.0


class Registry:
    """All valid keys. While the database is unreachable, the last known keys stay valid."""

    def __init__(self, storage: KeyStorage, ledger: UsageLedger) -> None:
        """Wait for the first sync; later ones run in the background."""
        self._storage = storage
        self._ledger = ledger
        self._keys: Mapping[str, ApiKey] = {}
        self._version: tuple[int, int] | None = None
        #: The start of the last successful sync, and whether the latest sync succeeded.
        self._seen_at = -_EVERY_S
        self._is_reachable = True
        #: Set when a request needs a sync; set and replaced when one has ended.
        self._asked, self._ended = Event(), Event()
        self._loop = gevent.spawn(self._look_on)
        self._ended.wait(_START_S)

    def stop(self) -> None:
        """Save the usage and stop."""
        self._loop.kill()
        with gevent.Timeout(_START_S, False):
            self._look()
        self._storage.close()

    def find(self, token: str | None) -> ApiKey:
        """Return the key of a token. Raises InvalidKey, or KeysUnavailable if the database
        cannot be asked whether it exists."""
        key_id = read_id(token or "")
        key = self.find_by_id(key_id) if key_id else None
        if not (token and key and key.matches(token)):
            raise InvalidKey(is_given=token is not None)
        return key

    def find_by_id(self, key_id: str) -> ApiKey:
        """Return the key of an id that was authenticated before. Raises as `find` does."""
        if key_id not in self._keys:
            self._wait_for_look(time.monotonic())
        key = self._keys.get(key_id)
        if key is None:
            raise InvalidKey(is_given=True)
        return key

    def _wait_for_look(self, since: float) -> None:
        """Wait for a sync that begins after `since`; all waiting requests share it."""
        give_up_at = since + _PATIENCE_S
        while self._seen_at < since:
            remaining_s = give_up_at - time.monotonic()
            if remaining_s <= 0 or not self._is_reachable:
                raise KeysUnavailable("The database of keys is unavailable.")
            self._asked.set()
            self._ended.wait(remaining_s)

    def _look_on(self) -> None:
        while True:
            self._look()
            ended, self._ended = self._ended, Event()
            ended.set()
            gevent.sleep(_LEAST_S)
            self._asked.wait(_EVERY_S - _LEAST_S)
            self._asked.clear()

    def _look(self) -> None:
        """Write counts and read keys. Only the first of several failures is logged."""
        began = time.monotonic()
        late = TimeoutError("The database does not answer.")
        try:
            counts = self._ledger.list_unsaved()
            # At startup, hundreds of processes may compete for the CPU.
            with gevent.Timeout(_LOOK_S if self._version else _START_S, late):
                seen = call_in_thread(
                    "keys", self._storage.sync, counts, self._ledger.id, self._version
                )
            self._ledger.learn(counts, seen.elsewhere)
        except Exception as error:  # no error may end the loop
            if self._is_reachable:
                is_ours = isinstance(error, StorageError)
                said = str(error) if is_ours else describe(error)
                log.error("only known keys work for now: %s", said)
            self._is_reachable = False
            return
        if not self._is_reachable:
            log.warning("the database of keys answers again")
        self._is_reachable = True
        self._seen_at = began
        self._version = seen.version
        self._keys = self._keys if seen.keys is None else seen.keys
