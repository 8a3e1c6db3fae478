"""A gateway whose backend fails with what it was asked, wherever it can, for Gunicorn."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import gevent
from flask import Flask

from catalog import Model
from gateway.app import create_app as create
from gateway.backends.backend import Capacity, ModelState, RowRequest


class FailingBackend:
    """Quotes what it is asked, wherever it can."""

    def predict(
        self, model: str, row: RowRequest, *, deadline: float
    ) -> dict[str, Any]:
        _spread(ValueError(row.body))
        try:
            raise KeyError(row.body)
        except KeyError as error:
            raise ValueError(row.body) from error

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        return dict.fromkeys(models)

    def capacity(self, model: Model) -> Capacity:
        return Capacity(model.workers)


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
    """The application that Gunicorn serves."""
    return create(backend=FailingBackend())
