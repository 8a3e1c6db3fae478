"""The database that keys, usage and glossaries are in. The libraries for it are loaded where
it is first used.
"""

from pathlib import Path

from catalog import ROOT
from contract import variables
from gateway.settings import Settings


def find_folder() -> Path:
    """Return the folder in which a stack's gateway processes share their figures of keys."""
    run = variables.find_run() or ROOT / variables.RUN_DIR.default
    return run.absolute() / "access"


def find_database(settings: Settings) -> str:
    """The URL of the database."""
    return settings.database_url or f"sqlite:///{find_folder() / 'keys.db'}"
