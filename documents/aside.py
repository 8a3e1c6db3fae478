"""Unreadable documents: each is moved aside, out of the way of everything else, and
reported once."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract import durable

log = logging.getLogger(__name__)


class Aside:
    """A folder of `<digits>-<name>`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told: set[Path] = set()

    def put(self, path: Path) -> None:
        """Moves a file or a folder here, if there is one and it may be moved."""
        with self.guard(path):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            name = f"{secrets.token_hex(4)}-{path.name[:100]}"
            durable.rename(path, self._folder / name)
            log.warning("%.8s… cannot be read: it is put aside", path.name)

    @contextmanager
    def guard(self, path: Path) -> Iterator[None]:
        """Keeps what the disk says of one entry from the others."""
        try:
            yield
        except FileNotFoundError:
            pass  # somebody else has moved or deleted it
        except OSError as error:
            if path not in self._told:
                self._told.add(path)
                log.error("%.8s… is skipped: %s", path.name, type(error).__name__)
