"""Reads the entries of which terms are made."""

from __future__ import annotations

from text.errors import TermsUnavailable


def read_entries(database: str, dictionary_id: str) -> bytes:
    """Return the stored entries of a dictionary. Raises TermsUnavailable if the database
    cannot be asked, or the dictionary was replaced a moment ago."""
    from gateway.database.connections import StorageError
    from gateway.glossaries.storage import open_storage

    try:
        entries = open_storage(database).read_entries(dictionary_id)
    except StorageError as error:
        raise TermsUnavailable from error
    if entries is None:
        raise TermsUnavailable
    return entries
