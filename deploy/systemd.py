"""The systemd unit of a stack: the template in `deploy/systemd` with this clone's paths."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from deploy.stack import ROOT, Stack

UNIT = ROOT / "deploy" / "systemd" / "babelgate.service"
_UP = "-m deploy up"


def render_unit(stack: Stack, user: str = "") -> str:
    """A unit that starts and watches `stack`; a system unit runs as `user`."""
    options = ["--run-dir", stack.run, "--map", stack.map]
    if stack.model:
        options += ["--model", stack.model]
    if stack.port_offset:
        options += ["--port-offset", stack.port_offset]
    if stack.tls:
        options += ["--tls", stack.tls]
    up = " ".join([_UP, *(f'"{_escape(option)}"' for option in options)])
    paths = {
        "/srv/babelgate/run": stack.run,
        "/srv/babelgate/.venv/bin/python": Path(sys.executable),
        "/srv/babelgate": ROOT,
    }
    text = re.sub(
        "|".join(paths),
        lambda found: _escape(paths[found[0]]),
        UNIT.read_text("utf-8"),
    ).replace(_UP, up)
    return text.replace("[Service]\n", f"[Service]\nUser={user}\n") if user else text


def _escape(value: object) -> str:
    """systemd would expand a percent sign and what follows it."""
    return str(value).replace("%", "%%")
