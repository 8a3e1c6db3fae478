"""The database of keys, usage and glossaries. Its libraries are loaded on first use."""

from pathlib import Path

from contract.documents import locate_run
from gateway.settings import Settings


def find_folder() -> Path:
    """Return the folder in which a stack's gateway processes share usage and limits of keys."""
    return locate_run() / "access"


def find_database(settings: Settings) -> str:
    """Return the URL of the database."""
    return settings.database_url or f"sqlite:///{find_folder() / 'keys.db'}"
