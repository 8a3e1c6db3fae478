"""Glossaries and dictionaries, stored or about to be stored, and their entries."""

from dataclasses import dataclass

from text.errors import TermsUnavailable

NO_DICTIONARY = "This glossary has no dictionary from {} to {}."


@dataclass(frozen=True)
class Dictionary:
    """The terms of a pair of languages. Its id changes with its entries."""

    id: str
    source: str
    target: str
    entry_count: int
    #: The bytes of its entries.
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
        """Return the dictionary of a pair of languages, or None."""
        by_pair = {(found.source, found.target): found for found in self.dictionaries}
        return by_pair.get((source, target))


@dataclass(frozen=True)
class DictionaryDraft:
    """A dictionary to be stored, with its entries as TSV."""

    source: str
    target: str
    entries: bytes
    entry_count: int


@dataclass(frozen=True)
class GlossaryContent:
    """The content of an upload. Without a name, a glossary keeps its present one."""

    name: str | None
    drafts: tuple[DictionaryDraft, ...]
    #: Warnings about unknown fields.
    warnings: tuple[str, ...] = ()


def read_entries(database: str, dictionary_id: str) -> bytes:
    """Return the stored entries of a dictionary. Raises TermsUnavailable if the database cannot
    be used, or the dictionary has just been replaced."""
    from gateway.database.connections import StorageError
    from gateway.glossaries.storage import open_storage

    try:
        entries = open_storage(database).read_entries(dictionary_id)
    except StorageError as error:
        raise TermsUnavailable from error
    if entries is None:
        raise TermsUnavailable
    return entries
