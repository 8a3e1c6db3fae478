"""Errors for a document's owner. Messages name the fault, its place and the expectation."""

import errno
import logging
from collections.abc import Mapping
from traceback import walk_tb
from typing import Any

from contract.problems import write_problem

log = logging.getLogger(__name__)

#: Error numbers for a full disk, an exhausted quota and a file above the size limit.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DocumentError(Exception):
    """The document cannot be translated. Messages never quote its text. `slug` and `status` are
    those of the problem that its owner receives."""

    slug, status = "damaged-document", 422


class UnknownFormat(DocumentError):
    """No supported format has this extension."""

    slug, status = "unknown-format", 415


class DamagedDocument(DocumentError):
    """The content is broken, or does not match the name's extension."""


class EncryptedDocument(DocumentError):
    """The document needs a password."""

    slug = "encrypted-document"

    def __init__(
        self, said: str = "The document is encrypted: save it without a password"
    ) -> None:
        super().__init__(said)


class RefusedContent(DocumentError):
    """The document contains something that is never opened, such as an entity or a zip bomb."""

    slug = "refused-content"


class DocumentTooLarge(DocumentError):
    """The document has more bytes, parts or texts than allowed."""

    slug, status = "document-too-large", 413


class DocumentTooSlow(DocumentError):
    """The document needs more time than allowed."""

    slug = "document-too-slow"


class LostMarkup(DocumentError):
    """The translations do not fit the document's texts: writing them would lose some."""

    slug, status = "lost-markup", 500


class TranslationFailed(Exception):
    """The document cannot be translated; `problem` is the reason."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["type"])
        self.problem = problem


def explain(error: Exception) -> dict[str, Any]:
    """Return the problem for an error. Logs internal errors without the document's text."""
    if isinstance(error, TranslationFailed):
        return dict(error.problem)
    if isinstance(error, DocumentError):
        return write_problem(error.slug, error.status, str(error))
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return write_problem(
            "disk-full", 507, "There is no disk space for the translated document."
        )
    # Log only the location: the message may quote the document.
    *_, (frame, line) = walk_tb(error.__traceback__)
    log.error("%s at %s:%d", type(error).__name__, frame.f_code.co_filename, line)
    return write_problem(
        "internal", 500, "The program that translates documents failed on this one."
    )
