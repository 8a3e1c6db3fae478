"""Errors that a document's owner is told, and how: the message says what is wrong, what was
expected, and where in the file.
"""

import errno
import logging
from collections.abc import Mapping
from traceback import walk_tb
from typing import Any

from contract.problems import write_problem

log = logging.getLogger(__name__)

#: The errors of a disk, or of a limit, that leaves no room.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DocumentError(Exception):
    """A document that cannot be translated. No message holds the document's text. Slug and
    status are those of the problem that the owner gets."""

    slug, status = "damaged-document", 422


class UnknownFormat(DocumentError):
    """No format of ours has this ending."""

    slug, status = "unknown-format", 415


class DamagedDocument(DocumentError):
    """The content is not what the name's ending says, or it is broken."""


class EncryptedDocument(DocumentError):
    """The document needs a password."""

    slug = "encrypted-document"

    def __init__(
        self, said: str = "The document is encrypted: save it without password"
    ) -> None:
        super().__init__(said)


class RefusedContent(DocumentError):
    """The document holds what is never opened, such as an entity or a zip bomb."""

    slug = "refused-content"


class DocumentTooLarge(DocumentError):
    """The document has more bytes, parts or texts than allowed."""

    slug, status = "document-too-large", 413


class DocumentTooSlow(DocumentError):
    """The document takes more time than allowed."""

    slug = "document-too-slow"


class LostMarkup(DocumentError):
    """The translations do not fit the document's texts: nothing is written rather than lost."""

    slug, status = "lost-markup", 500


class TranslationFailed(Exception):
    """The document cannot be translated, and `problem` says why."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["type"])
        self.problem = problem


def explain(error: Exception) -> dict[str, Any]:
    """The problem for an error. A fault of ours is logged without the document's text."""
    if isinstance(error, TranslationFailed):
        return dict(error.problem)
    if isinstance(error, DocumentError):
        return write_problem(error.slug, error.status, str(error))
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return write_problem(
            "disk-full", 507, "There is no room for the translated document."
        )
    # Only its place is logged: its message may quote the document.
    *_, (frame, line) = walk_tb(error.__traceback__)
    log.error("%s at %s:%d", type(error).__name__, frame.f_code.co_filename, line)
    return write_problem(
        "internal", 500, "The program that translates documents failed on this one."
    )
