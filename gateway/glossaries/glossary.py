"""A glossary, stored or about to be."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Dictionary:
    """The terms of a pair of languages. Its id changes with its entries."""

    id: str
    source: str
    target: str
    entry_count: int
    #: Bytes of its entries.
    size: int


@dataclass(frozen=True)
class Glossary:
    """A glossary and its dictionaries, without their entries."""

    id: str
    name: str
    #: Unix milliseconds.
    created_at_ms: int
    dictionaries: tuple[Dictionary, ...]

    def find(self, source: str, target: str) -> Dictionary | None:
        """The dictionary of a pair of languages."""
        pair = source, target
        return next(
            (d for d in self.dictionaries if (d.source, d.target) == pair), None
        )


@dataclass(frozen=True)
class DictionaryDraft:
    """A dictionary that is to be stored, its entries as TSV."""

    source: str
    target: str
    entries: bytes
    entry_count: int


@dataclass(frozen=True)
class GlossaryLimits:
    """The most glossaries of an owner, and the most bytes of entries: of one of them, of all
    of an owner, and of all owners. So much of the disk stays free."""

    glossaries: int
    glossary_bytes: int
    owner_bytes: int = sys.maxsize
    all_bytes: int = sys.maxsize
    reserve_bytes: int = 0
