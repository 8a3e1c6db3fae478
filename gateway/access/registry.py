"""The keys as this process knows them, a moment after the database. A thread beside the loop
reads them twice a second and writes what was used; requests do not wait for it.
"""

import logging
import time
from collections.abc import Mapping

import gevent
from gevent.event import Event
from gevent.threadpool import ThreadPool

from gateway.access.keys import ApiKey, read_id
from gateway.access.storage import KeyStorage
from gateway.access.usage import UsageLedger
from gateway.database.connections import StorageError
from gateway.errors import InvalidKey, KeysUnavailable
from gateway.redaction import describe
from gateway.threads import call_in_thread

log = logging.getLogger(__name__)

#: Seconds between two looks at the database; the least where an unknown key asks for one.
_EVERY_S, _LEAST_S = 0.5, 0.1
#: Seconds for which a request with an unknown key waits for a look.
_PATIENCE_S = 5.0
#: Seconds for a look. One that hangs keeps its thread, and the next look takes another.
_LOOK_S, _THREADS = 8.0, 4
#: Seconds for the first look, and for the last.
_START_S = 15.0


class Registry:
    """All valid keys. While the database is gone, those that were known stay valid."""

    def __init__(self, storage: KeyStorage, ledger: UsageLedger) -> None:
        """Looks for the first time, then goes on in the background."""
        self._storage = storage
        self._ledger = ledger
        self._keys: Mapping[str, ApiKey] = {}
        self._version: tuple[int, int] | None = None
        #: The start of the last look that succeeded, and whether the last one did.
        self._seen_at = -_EVERY_S
        self._is_reachable = True
        #: Set when a request wants a look; set and replaced when one has ended.
        self._asked, self._ended = Event(), Event()
        self._threads = ThreadPool(_THREADS)
        self._loop = gevent.spawn(self._look_on)
        self._ended.wait(_START_S)

    def stop(self) -> None:
        """Writes what was used, and ends."""
        self._loop.kill()
        with gevent.Timeout(_START_S, False):
            self._look()
        self._threads.kill()
        self._storage.close()

    def find(self, token: str | None) -> ApiKey:
        """The key of a token. Raises InvalidKey, or KeysUnavailable if the database cannot
        say whether it is one."""
        if token is None:
            raise InvalidKey(is_given=False)
        key_id = read_id(token)
        if key_id is None:
            raise InvalidKey(is_given=True)
        key = self.find_by_id(key_id)
        if not key.matches(token):
            raise InvalidKey(is_given=True)
        return key

    def find_by_id(self, key_id: str) -> ApiKey:
        """The key of an id that somebody has shown before. Raises as `find` does."""
        if key_id not in self._keys:
            self._wait_for_look(time.monotonic())
        key = self._keys.get(key_id)
        if key is None:
            raise InvalidKey(is_given=True)
        return key

    def _wait_for_look(self, since: float) -> None:
        """Returns after a look that began later. All who wait share it."""
        give_up_at = since + _PATIENCE_S
        while self._seen_at < since:
            remaining_s = give_up_at - time.monotonic()
            if remaining_s <= 0 or not self._is_reachable:
                raise KeysUnavailable("The database of keys cannot be asked now.")
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
        """Writes counts and reads keys. A failure is logged once."""
        began, counts = time.monotonic(), self._ledger.list_unsaved()
        late = TimeoutError("The database does not answer.")
        try:
            known = counts, self._ledger.id, self._version
            # At a start, hundreds of processes may want the processor.
            with gevent.Timeout(_LOOK_S if self._version else _START_S, late):
                seen = call_in_thread(self._threads, self._storage.sync, *known)
        except Exception as error:  # nothing may end the loop
            if self._is_reachable:
                is_ours = isinstance(error, StorageError)
                said = str(error) if is_ours else describe(error)
                log.error("keys that are known go on: %s", said)
            self._is_reachable = False
            return
        if not self._is_reachable:
            log.warning("the database of keys answers again")
        self._is_reachable = True
        self._seen_at = began
        self._version = seen.version
        self._keys = self._keys if seen.keys is None else seen.keys
        self._ledger.learn(counts, seen.elsewhere)
