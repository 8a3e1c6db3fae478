"""What is kept beside the results until a run has ended: the answers to parts of large files,
and attempts.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.errors import OutputError
from clients.sources import Source
from ray_backend.bulk.folder import Folder
from ray_backend.bulk.objects import open_bucket
from ray_backend.bulk.storage import KEPT, Journal, Store

_PARTS, _LEDGERS = f"{KEPT}/parts", f"{KEPT}/ledgers"
_OPTIONS = f"{KEPT}/options.json"


def open_store(place: str) -> Store:
    """A folder, or what a URL names. Raises ClientError."""
    return open_bucket(place) or Folder(Path(place).absolute())


@dataclass(frozen=True)
class Workspace:
    """Where results go; all machines of a run see it."""

    store: Store

    def list_parts(self, source: Source) -> set[int]:
        """The parts of a large file that are answered, as the file is now."""
        return set(map(int, self.store.list_names(_find_parts(source))))

    def read_part(self, source: Source, part: int) -> bytes:
        """The answers to a part."""
        return self.store.read(_find_part(source, part)) or b""

    def write_part(self, source: Source, part: int, answers: bytes) -> None:
        """Keeps the answers to a part. Raises OutputError."""
        self.store.write(_find_part(source, part), answers)

    def remove_parts(self, source: Source) -> None:
        """Removes all parts of a file."""
        self.store.remove_folder(_find_parts(source))

    def leave_mark(self) -> str:
        """The name of a file that whoever works must see, or else what is written there would
        be lost. No machine has looked for it yet."""
        mark = f"{KEPT}/mark-{secrets.token_hex(8)}"
        self.store.write(mark, b"")
        return mark

    def find_mark(self, mark: str) -> None:
        """Raises OutputError if it cannot be seen here."""
        if self.store.read(mark) is None:
            raise OutputError(
                f"{socket.gethostname()} does not see {self.store.locate(mark)}: every "
                "machine must have the folder of the results under the same path"
            )

    def find_ledger(self, items: Iterable[str]) -> Journal:
        """The attempts at a list of texts, or at a video by its name."""
        digest = _digest("\0".join(items))
        return self.store.open_journal(f"{_LEDGERS}/{digest}")

    @contextmanager
    def open(
        self, options: Mapping[str, Any], *, is_restart: bool
    ) -> Iterator[Callable[[], None]]:
        """Keeps other runs away; what it yields raises OutputError if one has come. What is
        kept beside the results is removed at the end unless that is an exception. Raises
        OutputError if another run is at work, or was begun with other options and not
        ended."""
        with self.store.lock() as check:
            if is_restart:
                self.store.remove_folder(_PARTS)
                self.store.remove_folder(_LEDGERS)
            self._check_options(options, is_restart=is_restart)
            yield check
            self.store.remove_folder(KEPT)

    def _check_options(self, options: Mapping[str, Any], *, is_restart: bool) -> None:
        wanted = json.dumps(options, sort_keys=True, default=str).encode()
        known = None if is_restart else self.store.read(_OPTIONS)
        if known not in (None, wanted):
            raise OutputError(
                f"{self.store.locate()}: a run with other options was begun there; repeat "
                "its command, or begin anew with --overwrite"
            )
        self.store.write(_OPTIONS, wanted)


def _find_part(source: Source, part: int) -> str:
    return f"{_find_parts(source)}/{part:06}"


def _find_parts(source: Source) -> str:
    """Changes with the file."""
    place = source.url or source.path.absolute()
    state = f"{place}\n{source.size_bytes}\n{source.modified_ns}"
    return f"{_PARTS}/{_digest(state)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
