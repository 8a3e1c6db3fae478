"""The client's errors; each message says where and what to do."""

from __future__ import annotations


class ClientError(Exception):
    """Anything below; the command line shows its text and exits with 1."""


class VideoError(ClientError):
    """A video does not exist, or cannot be read to its end."""


class ServerError(ClientError):
    """The server refused, or every attempt failed."""


class OutputError(ClientError):
    """The captions cannot be written there."""


class MemoryLimitError(ClientError):
    """A video does not fit into its memory limit."""
