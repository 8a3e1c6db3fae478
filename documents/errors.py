"""Errors that a document's owner is told: the message says what is wrong, what was expected,
and where in the file.

    DocumentError
    ├── UnknownFormat      no format of ours has this ending
    ├── DamagedDocument    not what its ending says, or broken inside
    ├── EncryptedDocument  needs a password
    ├── RefusedContent     holds what we never open: entities, external references, bombs
    ├── DocumentTooLarge   more bytes, parts or texts than allowed
    └── LostMarkup         a translation has not the elements of its text, or texts are missing
"""

from __future__ import annotations


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

    slug, status = "encrypted-document", 422


class RefusedContent(DocumentError):
    """The document holds what is never opened, such as an entity or a zip bomb."""

    slug, status = "refused-content", 422


class DocumentTooLarge(DocumentError):
    """The document has more bytes, parts or texts than allowed."""

    slug, status = "document-too-large", 413


class LostMarkup(DocumentError):
    """The translations do not fit the document's texts: nothing is written rather than lost."""

    slug, status = "lost-markup", 500
