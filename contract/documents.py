"""The run directory, its documents, and the secret with which the translator acts for a key."""

from pathlib import Path
from typing import Final

from contract import durable, variables

#: The header with the secret, which only programs of this stack can read.
WORKER_HEADER: Final = "X-Babelgate-Worker"
#: The header with the id of the key whose quota is used.
OWNER_HEADER: Final = "X-Babelgate-Key-Id"
_ROOT = Path(__file__).parents[1]


def locate_run() -> Path:
    """Return this stack's run directory, or the usual one, as an absolute path."""
    return _ROOT / (variables.find_run() or variables.RUN_DIR.default)


def find_documents(given: Path | None) -> Path:
    """Return the folder of all documents, which several machines may share."""
    return _ROOT / given if given not in (None, Path()) else locate_run() / "documents"


def read_secret() -> str:
    """Return this stack's secret, which only its owner can read, or make it. Raises OSError."""
    path = locate_run() / "jobs" / "secret"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return durable.make_secret(path)
