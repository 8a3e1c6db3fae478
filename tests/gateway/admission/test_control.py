"""Admitted rows of clients that disconnect, and late rows."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import gevent
from gevent.event import Event

from gateway.admission.control import Admission
from gateway.backends.backend import write_row
from gateway.errors import DeadlineExceeded, Overloaded
from handlers.base import ROWS_FILE, CancellationTable
from tests.gateway.conftest import StatelessBackend, make_call, make_model

KO = make_model()
ROWS, LIMIT_S = 10, 30


class Slow(StatelessBackend):
    """A backend that answers once a test lets it; `late` marks rows that are then too late."""

    def __init__(self, late: Sequence[bool] = ()) -> None:
        self.is_asked, self.may_answer = Event(), Event()
        self._late = iter(late)
        self.number: int | None = None

    def predict(self, model, row, *, deadline) -> dict[str, Any]:
        is_late, self.number = next(self._late, False), row.cancellation.number
        self.is_asked.set()
        assert self.may_answer.wait(LIMIT_S)
        if is_late:
            raise DeadlineExceeded("Too late.")
        return {}


def test_rows_of_a_client_that_has_gone_are_in_nobodys_way(run):
    backend = Slow()
    admission = Admission(backend, [KO], run / ROWS_FILE.parent)
    here, there = socket.socketpair()
    with here, there:
        caller = make_call(client=here)
        admitted = admission.admit("ko", caller, [1.0] * (ROWS - 1), is_bulk=False)
        other = admission.admit("ko", caller, [1.0], is_bulk=False)
        with closing(admitted) as ticket, closing(other), gevent.Timeout(LIMIT_S):
            asked = gevent.spawn(ticket.predict, write_row({}), 1.0)
            assert backend.is_asked.wait(LIMIT_S)
            assert admission.count_waiting() == {"ko": ROWS - 1}
            assert CancellationTable().is_wanted(str(backend.number))
            there.close()
            while admission.count_waiting() != {"ko": 0}:
                gevent.sleep(0)
            assert not CancellationTable().is_wanted(str(backend.number))
            backend.may_answer.set()
            asked.get(timeout=LIMIT_S)
    assert admission.count_waiting() == {"ko": 0}


def ask_twice(backend: Slow) -> tuple[gevent.Greenlet[[], Any], ...]:
    """Send two rows of one request, which the model answers once it has both."""
    ticket = Admission(backend, [KO]).admit("ko", make_call(), [1.0] * 2, is_bulk=False)
    with closing(ticket) as admitted:
        asked = [gevent.spawn(admitted.predict, write_row({}), 1.0) for _ in range(2)]
        while admitted._rows:
            gevent.sleep(0)
        backend.may_answer.set()
        return tuple(gevent.joinall(asked, timeout=LIMIT_S))


def test_a_row_that_is_late_because_of_others_is_overload():
    first, second = ask_twice(Slow(late=[False, True]))
    assert first.value == {}
    assert isinstance(second.exception, Overloaded)
    assert "longer than expected" in second.exception.detail


def test_rows_of_a_model_that_hangs_are_late_and_no_overload():
    first, second = ask_twice(Slow(late=[True, True]))
    assert isinstance(first.exception, DeadlineExceeded)
    assert isinstance(second.exception, DeadlineExceeded)
