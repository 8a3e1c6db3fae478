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
from gevent.threadpool import ThreadPool

from contract.languages import normalize_language
from gateway.database import find_database
from gateway.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    GlossariesUnavailable,
    InternalError,
    NoDictionary,
    Overloaded,
    UnknownGlossary,
)
from gateway.glossaries.glossary import NO_DICTIONARY, Glossary, GlossaryContent
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
_THREADS = 4
_STAGE = "the glossary was read"

Found = TypeVar("Found")


class Glossaries:
    """The glossaries of all owners. Safe to share among greenlets."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._timeout_s = settings, settings.timeout_s
        self._url = find_database(settings)
        self._threads: ThreadPool | None = None
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

    def create(self, owner: str, content: GlossaryContent) -> Glossary:
        """Create a glossary. Raises TooManyGlossaries, BodyTooLarge, DiskFull and
        GlossariesUnavailable."""
        return self._ask_database(lambda s: s.create(owner, content, self._settings))

    def list_all(self, owner: str) -> list[Glossary]:
        """Return all glossaries of an owner. Raises GlossariesUnavailable."""
        return self._ask_database(lambda storage: storage.list_all(owner))

    def find(self, owner: str, wanted: str) -> Glossary:
        """Return the glossary with this id, or else the only one with this name. Raises
        UnknownGlossary and GlossariesUnavailable."""
        found = self._ask_database(lambda storage: storage.find(owner, wanted))
        by_id = [glossary for glossary in found if glossary.id == wanted]
        if not found:
            raise UnknownGlossary(f"There is no glossary {wanted[:40]!r}.")
        if not by_id and len(found) > 1:
            raise UnknownGlossary(
                f"{len(found)} glossaries have the name {wanted[:40]!r}; use an id."
            )
        return (by_id or found)[0]

    def read_entries(self, glossary: Glossary, pair: Sequence[str]) -> bytes:
        """Return a pair's entries as TSV. Raises UnknownGlossary and GlossariesUnavailable."""
        found = glossary.find(*pair)
        entries = (
            self._ask_database(lambda s: s.read_entries(found.id)) if found else None
        )
        if entries is None:
            raise UnknownGlossary(NO_DICTIONARY.format(*pair))
        return entries

    def change(
        self,
        owner: str,
        glossary_id: str,
        content: GlossaryContent,
        *,
        is_merged: bool = False,
    ) -> Glossary:
        """Change a glossary in the storage. Also raises GlossariesUnavailable."""
        return self._ask_database(
            lambda storage: storage.change(
                owner, glossary_id, content, self._settings, is_merged=is_merged
            )
        )

    def delete(self, owner: str, glossary_id: str) -> None:
        """Delete a glossary. Raises UnknownGlossary and GlossariesUnavailable."""
        self._ask_database(lambda storage: storage.delete(owner, glossary_id))

    def delete_dictionary(
        self, owner: str, glossary_id: str, pair: Sequence[str]
    ) -> None:
        """Delete a dictionary. Raises UnknownGlossary and GlossariesUnavailable."""
        self._ask_database(lambda s: s.delete_dictionary(owner, glossary_id, pair))

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
        for one in wanted:
            known = self.find(owner, one).dictionaries
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

    def close(self) -> None:
        """Close the database and stop the threads."""
        if self._threads is not None:  # an idle pool is falsy
            self._threads.apply(
                self._answer_question, (lambda storage: storage.close(),)
            )
            self._threads.kill()

    def _ask_database(self, question: Callable[[GlossaryStorage], Found]) -> Found:
        if self._threads is None:
            self._threads = ThreadPool(_THREADS)
        late = GlossariesUnavailable("The database of glossaries does not answer.")
        with gevent.Timeout(self._timeout_s, late):
            return call_in_thread(self._threads, self._answer_question, question)

    def _answer_question(self, question: Callable[[GlossaryStorage], Found]) -> Found:
        """Call `question` in a thread of the pool."""
        from gateway.database.connections import StorageError
        from gateway.glossaries.storage import open_storage

        try:
            return question(open_storage(self._url))
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
