"""Where documents are, and this machine's own files beside them: the secret that the gateway
and the program that translates share, and the machine's name among several.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from contract import durable, variables

_ROOT = Path(__file__).parents[1]
_BYTES = 32


def find_documents(given: Path | None) -> Path:
    """The folder of all documents, which several machines may share."""
    return _ROOT / given if given not in (None, Path()) else _find_run() / "documents"


def find_jobs() -> Path:
    """The folder of this machine's own files."""
    return _find_run() / "jobs"


def read_secret() -> str:
    """The secret of this stack, which its owner alone can read. Raises OSError."""
    return _read_or_make(find_jobs() / "secret")


def read_machine() -> str:
    """A name that no other machine has, and that stays. Raises OSError."""
    return _read_or_make(find_jobs() / "machine")


def read_name(documents: Path) -> str:
    """The name of a folder of documents, the same for all machines that share it. Raises
    OSError."""
    return _read_or_make(documents / "name")


def _find_run() -> Path:
    return _ROOT / (variables.find_run() or variables.RUN_DIR.default)


def _read_or_make(path: Path) -> str:
    """Read a secret, or make it. The first process makes it; the others find it whole."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    durable.write_once(path, secrets.token_hex(_BYTES))
    return path.read_text()
