"""Renders a stack's systemd unit: the template in `deploy/systemd` with this clone's paths."""

import re
import sys

from deploy.stack import ROOT, UNSAID, Stack

UNIT = ROOT / "deploy" / "systemd" / "babelgate.service"
_UP, _JOIN = "-m deploy up", "-m deploy join"


def render_unit(stack: Stack, user: str = "") -> str:
    """Return a unit that starts and watches `stack`; a system unit runs as `user`."""
    options = {
        "--run-dir": stack.run,
        "--map": stack.map if stack.map != UNSAID else None,
        "--model": stack.model,
        "--port-offset": stack.port_offset,
        "--tls": stack.tls,
        "--backend": None if stack.head else stack.backend,
        "--address": stack.address,
        "--head": stack.head,
    }
    given = [part for pair in options.items() if pair[1] for part in pair]
    given += ["--gateway"] if stack.head and stack.is_door else []
    up = " ".join([_JOIN if stack.head else _UP, *map(_quote, given)])
    paths = {
        '"/srv/babelgate/run"': _quote(stack.run),
        "/srv/babelgate/run": _escape(stack.run),
        "/srv/babelgate/.venv/bin/python": _escape(sys.executable),
        "/srv/babelgate": _escape(ROOT),
    }
    text = re.sub(
        "|".join(paths), lambda found: paths[found[0]], UNIT.read_text("utf-8")
    ).replace(_UP, up)
    return text.replace("[Service]\n", f"[Service]\nUser={user}\n") if user else text


def _escape(value: object) -> str:
    """Escape percent signs, which systemd would expand."""
    return str(value).replace("%", "%%")


def _quote(value: object) -> str:
    """Quote an argument of a command, in which systemd would also expand dollar signs."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", _escape(value))
    return f'"{escaped.replace("$", "$$")}"'
