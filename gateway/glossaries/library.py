"""All glossaries, for routes. The database is opened on first use and queried in threads."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import gevent
from gevent import subprocess
from gevent.lock import BoundedSemaphore

from contract.languages import normalize_language
from gateway.database import find_database
from gateway.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    GlossariesUnavailable,
    InternalError,
    NoDictionary,
    Overloaded,
)
from gateway.glossaries.reading import (
    ANSWERS,
    Answer,
    GlossaryUpload,
    read,
    write_upload,
)
from gateway.http.request import Deadline
from gateway.settings import Settings
from gateway.threads import call_in_thread
from text.terms import Choice

if TYPE_CHECKING:
    from gateway.glossaries.storage import GlossaryStorage

log = logging.getLogger(__name__)

_ROOT = Path(__file__).parents[2]
#: The most bytes of a body that this process reads itself.
_SHORT = 32 << 10
_STAGE = "the glossary was read"

Found = TypeVar("Found")


class Glossaries:
    """The glossaries of all owners. Safe to share among greenlets."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._timeout_s = settings, settings.timeout_s
        self._url = find_database(settings)
        self._storage: GlossaryStorage | None = None
        self._turn = BoundedSemaphore(1)

    def read(self, upload: GlossaryUpload) -> Answer:
        """Read an upload; a large one in another process, one at a time. Raises Overloaded if
        other uploads use up its time, and DeadlineExceeded."""
        if len(upload.body) <= _SHORT:
            return read(upload)
        deadline = Deadline(time.monotonic() + self._timeout_s)
        if not self._turn.acquire(timeout=self._timeout_s):
            raise Overloaded("Too many large glossaries are waiting to be read.")
        try:
            with gevent.Timeout(deadline.check(_STAGE), DeadlineExceeded(_STAGE)):
                return ANSWERS.validate_json(_run_reader(write_upload(upload)))
        finally:
            self._turn.release()

    def choose(
        self, owner: str, wanted: Sequence[str], source: str | None, target: str
    ) -> Choice:
        """Return these glossaries' dictionaries into `target`. For a variant, those of its
        language follow its own. Raises UnknownGlossary, NoDictionary if there is none from
        `source`, BodyTooLarge if they are too large together, and GlossariesUnavailable."""
        by_source: dict[str, tuple[str, ...]] = {}
        size, most = 0, self._settings.max_glossary_bytes
        language = normalize_language(source) if source else None
        targets = dict.fromkeys((target, normalize_language(target)))
        chosen = self.ask(
            lambda storage: [storage.find(owner, name) for name in wanted]
        )
        for known in (glossary.dictionaries for glossary in chosen):
            for found in (d for into in targets for d in known if d.target == into):
                spoken = normalize_language(found.source)
                if language in (None, spoken):
                    by_source[spoken] = (*by_source.get(spoken, ()), found.id)
                    size += found.size
        if size > most:
            raise BodyTooLarge(
                f"The glossaries of a request may have at most {most} bytes of entries "
                f"together; these have {size}."
            )
        if not by_source:
            languages = f"from {source} to {target}" if source else f"into {target}"
            raise NoDictionary(f"The glossary has no dictionary {languages}.")
        return Choice(self._url, by_source)

    def ask(self, question: Callable[[GlossaryStorage], Found]) -> Found:
        """Return the storage's answer, from a thread. Raises its errors, and
        GlossariesUnavailable instead of StorageError."""
        late = GlossariesUnavailable("The database of glossaries does not answer.")
        with gevent.Timeout(self._timeout_s, late):
            return call_in_thread("glossaries", self._ask_storage, question)

    def close(self) -> None:
        """Close the database."""
        if self._storage:
            self._storage.close()

    def _ask_storage(self, question: Callable[[GlossaryStorage], Found]) -> Found:
        from gateway.database.connections import StorageError
        from gateway.glossaries.storage import open_storage

        try:
            self._storage = open_storage(self._url)
            return question(self._storage)
        except StorageError as error:
            log.error("glossaries cannot be used: %s", error)
            raise GlossariesUnavailable(
                "The database of glossaries cannot be asked now."
            ) from error


def _run_reader(given: bytes) -> bytes:
    """Run the reader. It is killed if the deadline passes or the client disconnects."""
    command = [sys.executable, "-m", "gateway.glossaries.reading"]
    ran = subprocess.run(command, cwd=_ROOT, input=given, stdout=subprocess.PIPE)
    if ran.returncode:
        raise InternalError("The glossary could not be read.")
    return bytes(ran.stdout)
