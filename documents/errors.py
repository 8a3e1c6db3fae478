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

    def __init_subclass__(cls, *, slug: str = "", status: int = 0) -> None:
        cls.slug, cls.status = slug or cls.slug, status or cls.status


class UnknownFormat(DocumentError, slug="unknown-format", status=415):
    """No supported format has this extension."""


class DamagedDocument(DocumentError):
    """The content is broken, or does not match the name's extension."""


class EncryptedDocument(DocumentError, slug="encrypted-document"):
    """The document needs a password."""

    def __init__(
        self, said: str = "The document is encrypted: save it without a password"
    ) -> None:
        super().__init__(said)


class RefusedContent(DocumentError, slug="refused-content"):
    """The document contains something that is never opened, such as an entity or a zip bomb."""


class DocumentTooLarge(DocumentError, slug="document-too-large", status=413):
    """The document has more bytes, parts or texts than allowed."""


class DocumentTooSlow(DocumentError, slug="document-too-slow"):
    """The document needs more time than allowed."""


class LostMarkup(DocumentError, slug="lost-markup", status=500):
    """The translations do not fit the document's texts: writing them would lose some."""


class TranslationFailed(Exception):
    """The document cannot be translated; `problem` is the reason. If the gateway refuses a
    request, `index` is the position in it of the text at fault, if known."""

    def __init__(self, problem: Mapping[str, Any], index: int | None = None) -> None:
        super().__init__(problem["type"])
        self.problem = problem
        self.index = index


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
