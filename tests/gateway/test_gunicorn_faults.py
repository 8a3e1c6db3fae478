"""Gunicorn's log has the types and places of errors, and no content of requests."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
import requests
from flask import Flask

from gateway.app import create_app as create
from tests.gateway.conftest import StatelessBackend
from tests.gateway.test_gunicorn import send, serve
from tests.scripted_server import LIMIT_S

pytestmark = pytest.mark.slow

SECRET = "xylophone7391"
PNG = b"\x89PNG\r\n\x1a\n"


class FailingBackend(StatelessBackend):
    """A backend that quotes the row in each of its errors."""

    def predict(self, model, row, *, deadline) -> dict[str, Any]:
        _spread(ValueError(row.body))
        try:
            raise KeyError(row.body)
        except KeyError as error:
            raise ValueError(row.body) from error


class _Unraisable:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def _spread(error: Exception) -> None:
    gevent.spawn(_fail, error)
    threading.Thread(target=_fail, args=[error]).start()
    _Unraisable(error)
    try:
        raise error
    except ValueError:
        logging.getLogger("gunicorn.error").exception("a library's own word")


def _fail(error: Exception) -> None:
    raise error


def create_app() -> Flask:
    return create(backend=FailingBackend())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A Gunicorn whose backend quotes the row in its errors: its URL and its log."""
    folder = tmp_path_factory.mktemp("failing")
    with serve(folder, app="tests.gateway.test_gunicorn_faults") as (url, _):
        yield url, folder / "log"


WANTED = {"src_lang": "en", "src_text": SECRET, "tgt_lang": "ko"}


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/", {"json": WANTED}),
        ("/", {"json": WANTED | {"src_text": [f"{SECRET}. " * 3] * 3}}),
        ("/caption", {"files": [("a", PNG + SECRET.encode())] * 2}),
    ],
    ids=["sentence", "list of sentences", "images"],
)
def test_what_people_send_is_not_in_the_log_of_its_fault(running, path, sent):
    url, log = running
    before = len(log.read_text())
    answer = requests.post(url + path, timeout=LIMIT_S, **sent)
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:babelgate:internal"
    said = log.read_text()[before:]
    assert "from KeyError at gateway/" in said or "from KeyError at tests/" in said
    assert f"request {answer.json()['request_id']} failed: ValueError at " in said


def test_the_log_holds_nothing_of_all_this(running):
    """Errors of greenlets, threads and destructors must not show it either."""
    url, log = running
    for raw in (
        f"{SECRET}\r\n\r\n",
        f"GET /{SECRET} HTTP/9.9\r\n\r\n",
        f"GET / HTTP/1.1\r\n{SECRET}\r\n\r\n",
        f"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n",
        f"POST / HTTP/1.1\r\nTransfer-Encoding: {SECRET}\r\n\r\n",
    ):
        assert b"application/problem+json" in send(url, raw.encode())
    requests.post(url, json=WANTED, timeout=LIMIT_S)
    large = b'{"' + SECRET.encode() * 4000  # parsed outside the event loop
    assert requests.post(url, data=large, timeout=LIMIT_S).status_code == 400
    said = log.read_text()
    assert SECRET not in said
    assert "Traceback" not in said
    assert "MalformedRequest" not in said
    assert said.count("uncaught error: ValueError at ") >= 3
    assert "a library's own word\nValueError at " in said
