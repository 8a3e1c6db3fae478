"""The clients' errors. Each message names the place and the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ClientError(Exception):
    """The base of all errors below; the command line prints the message and exits with 1."""


class InputError(ClientError):
    """A file does not exist or is broken, or the command does not accept it."""


class ServerError(ClientError):
    """The server refused, or every attempt failed."""

    def __init__(self, message: str, reason: str = "", status: int = 0) -> None:
        super().__init__(message)
        #: The server's explanation, without the URL.
        self.reason = reason
        #: The status of the last answer; 0 if there was none.
        self.status = status


class OutputError(ClientError):
    """A result cannot be written."""


@contextmanager
def explain_disk(path: Path) -> Iterator[None]:
    """Convert an OSError into an OutputError that names the path."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from error
