"""Describes an error for a log by its type and its place in the code, because its message, or
a greenlet's arguments, may quote users' text."""

import logging
import sys
import threading
import traceback
from typing import Any

from gevent.hub import Hub

#: The folders of this clone and of its libraries, which are cut from file names.
_ROOT, _LIBRARIES = __file__.rpartition("/gateway/")[0] + "/", "/site-packages/"


def describe(error: BaseException) -> str:
    """Describe an error and its cause: `KeyError at gateway/a.py:3 in f, text/b.py:5 in g`."""
    frames = traceback.extract_tb(error.__traceback__)
    places = ", ".join(
        f"{_shorten(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames
    )
    said = f"{type(error).__name__} at {places or 'no place'}"
    cause = error.__cause__ or error.__context__
    return f"{said}; from {describe(cause)}" if cause else said


def _shorten(file: str) -> str:
    return file.rpartition(_LIBRARIES)[2].removeprefix(_ROOT)


def reduce_logs() -> None:
    """Make this process log every error by its description: in a logger's traceback, a
    greenlet, a thread, and where it cannot be raised."""
    logging.Formatter.formatException = lambda _, info: describe(info[1])  # type: ignore
    Hub.print_exception = lambda *given: _print(given[3])  # its fourth is the error
    threading.excepthook = lambda args: _print(args.exc_value)
    sys.unraisablehook = lambda args: _print(args.exc_value)


def _print(error: Any) -> None:
    if isinstance(error, BaseException):
        logging.getLogger("gunicorn.error").error("uncaught error: %s", describe(error))
