"""Makes a virtual environment with a peer's pinned packages, once."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from deploy.stack import ROOT, StackError

#: Our own versions, which hold for the peers' environments wherever they need the same.
_CONSTRAINTS = ROOT / "constraints.txt"
_INSTALL_S = 900
_TAIL_LINES = 20


def prepare(requirements: Path, directory: Path) -> Path:
    """The Python of an environment, made again for other packages. Raises StackError."""
    python = directory / "bin" / "python"
    mark = directory / "made-of"
    texts = (path.read_bytes() for path in (requirements, _CONSTRAINTS))
    digest = hashlib.sha256(b"\0".join((sys.version.encode(), *texts))).hexdigest()
    if mark.exists() and mark.read_text("utf-8") == digest:
        return python
    ours = (sys.executable, "-m")
    _run([*ours, "venv", "--clear", "--without-pip", str(directory)])
    _run(
        [
            *(*ours, "pip", "--python", str(python), "install", "--quiet"),
            *("--disable-pip-version-check", "--constraint", str(_CONSTRAINTS)),
            *("--requirement", str(requirements)),
        ]
    )
    mark.write_text(digest, "utf-8")
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S)
    if done.returncode != 0:
        lines = f"{done.stdout}{done.stderr}".splitlines()
        raise StackError("\n".join([" ".join(command), *lines[-_TAIL_LINES:]]))
