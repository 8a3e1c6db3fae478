"""Port offsets for stacks that run side by side, started by processes that know nothing of
each other.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

from deploy.stack import Backend, Stack, StackError
from ray_backend.nodes import LOOPBACK

#: Below the ports that Linux gives to clients.
_OFFSETS = range(1000, 20_000, 500)
#: The offsets of this process.
_claimed: set[int] = set()


def claim_port_offset(address: str = LOOPBACK) -> int:
    """Return an offset at which every port of a stack is free, whatever its models run on.
    No other process gets it while this one lives; this one may get it again once the ports
    are free again. Raises StackError if there is none."""
    for offset in _OFFSETS:
        if _has_free_ports(offset, address) and _claim(offset):
            return offset
    raise StackError("No free ports for a stack.")


def _has_free_ports(offset: int, address: str) -> bool:
    stack = Stack(Path(), Path(), None, offset, address=address)
    with suppress(StackError):
        for backend in get_args(Backend):
            replace(stack, backend=backend).check_ports()
        return True
    return False


def _claim(offset: int) -> bool:
    """Bind a name in Linux' abstract namespace, which is free again as soon as the process
    has ended, however it ends."""
    if offset not in _claimed:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0babelgate-port-offset-{offset}")
        except OSError:
            claim.close()
            return False
        claim.detach()
        _claimed.add(offset)
    return True
