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


def test_a_function_runs_in_another_thread(pool):
    def find(number: int, *, more: int) -> tuple[int, int]:
        return threading.get_ident(), number + more

    thread, found = call_in_thread(pool, find, 1, more=2)
    assert thread != threading.get_ident()
    assert found == 3


def test_an_error_is_raised_and_not_logged(pool, monkeypatch):
    logged: list[object] = []
    monkeypatch.setattr(Hub, "print_exception", lambda *given: logged.append(given))
    with pytest.raises(ZeroDivisionError):
        call_in_thread(pool, divmod, 1, 0)
    assert call_in_thread(pool, divmod, 1, 1) == (1, 0)
    assert logged == []


def test_a_document_that_is_not_there_is_no_line_in_the_log(client, monkeypatch):
    logged: list[object] = []
    monkeypatch.setattr(Hub, "print_exception", lambda *given: logged.append(given))
    for path in (
        f"/documents/{'0' * 32}",
        f"/download_file/open-{'0' * 32}-x",
        f"/glossaries/{'0' * 8}",
    ):
        assert client.get(path).status_code == 404
    assert logged == []
