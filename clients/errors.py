"""The client's errors; each message says where and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ClientError(Exception):
    """Anything below; the command line shows its text and exits with 1."""


class InputError(ClientError):
    """A file does not exist, or is not what a command takes."""


class VideoError(InputError):
    """A video cannot be read to its end."""


class ServerError(ClientError):
    """The server refused, or every attempt failed."""

    def __init__(self, message: str, reason: str = "", status: int = 0) -> None:
        super().__init__(message)
        #: The server's words, without the URL.
        self.reason = reason
        #: The last answer's; 0 if there was none.
        self.status = status


class OutputError(ClientError):
    """The result cannot be written there."""


@contextmanager
def explain_disk(path: Path) -> Iterator[None]:
    """Raises OutputError where the disk raises OSError."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from error
