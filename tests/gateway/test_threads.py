"""The results and errors of functions in threads, which nobody logs."""

from __future__ import annotations

import threading

import pytest
from gevent.hub import Hub
from gevent.threadpool import ThreadPool

from gateway.threads import call_in_thread


@pytest.fixture
def pool():
    found = ThreadPool(1)
    yield found
    found.kill()


def test_an_error_is_raised_and_not_logged(pool, monkeypatch):
    logged: list[object] = []
    monkeypatch.setattr(Hub, "print_exception", lambda *given: logged.append(given))
    with pytest.raises(ZeroDivisionError):
        call_in_thread(pool, divmod, 1, 0)
    assert call_in_thread(pool, int, "12", base=3) == 5
    assert call_in_thread(pool, threading.get_ident) != threading.get_ident()
    assert logged == []
