"""What a request has announced, and what becomes of it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import gevent
from gevent.event import Event

from gateway.admission import Admission
from gateway.backend import Row, write_row
from tests.gateway.callers import make_caller
from torchserve_backend import catalog
from torchserve_backend.management import Registered

KO = catalog.Model("ko", catalog.TRANSLATION, ("ko",), ("cpu",), catalog.Translation())
ROWS, LIMIT_S = 10, 30


class Slow:
    """A backend that answers when it may."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = Event(), Event()

    def predict(self, model: str, row: Row, *, deadline: float) -> dict[str, Any]:
        """Nothing, then."""
        self.is_asked.set()
        assert self.may_answer.wait(LIMIT_S)
        return {}

    def states(self, models: Sequence[str]) -> dict[str, Registered | None]:
        """Nobody asks."""
        return {}


def test_what_a_client_that_has_gone_had_announced_is_in_nobodys_way():
    backend = Slow()
    admission = Admission(backend, [KO])
    here, there = socket.socketpair()
    with here, there:
        caller = make_caller(client=here)
        with admission.admit("ko", caller, [1.0] * ROWS, is_bulk=False) as ticket:
            asked = gevent.spawn(ticket.predict, write_row({}), 1.0)
            assert backend.is_asked.wait(LIMIT_S)
            assert admission.count_waiting() == {"ko": ROWS - 1}
            there.close()
            while admission.count_waiting() != {"ko": 0}:
                gevent.sleep(0)
            backend.may_answer.set()
            asked.get(timeout=LIMIT_S)
    assert admission.count_waiting() == {"ko": 0}
