"""The APIs that clients speak beside our own: which paths are theirs, and how their servers
say that something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contract.problems import CONTENT_TYPE, ErrorAnswer

Document = Mapping[str, Any]

#: The statuses of all three, where ours differ.
_STATUSES = {401: 403, 422: 400}
#: Problems that end when a client waits.
_BUSY = frozenset(
    {"queue-full", "too-many-connections", "rate-limited", "too-many-documents"}
)
_TOO_LONG = frozenset({"body-too-large", "too-many-rows", "header-too-large"})


@dataclass(frozen=True, eq=False)
class Dialect:
    """An API. Its paths begin with one of `paths` and end there or go on with a slash."""

    name: str
    paths: tuple[str, ...]
    #: Its name for `src_text`.
    text_field: str
    #: Writes a problem document that already has this API's status.
    write: Callable[[Document], dict[str, Any]]
    #: Statuses of slugs that only this API has.
    statuses: Mapping[str, int] = field(default_factory=dict)
    content_type: str = "application/json"

    def answer(self, document: Document) -> ErrorAnswer:
        """A problem as this API writes it."""
        slug, status = _read_slug(document), document["status"]
        if self not in (OURS, EITHER):
            status = self.statuses.get(slug) or _STATUSES.get(status, status)
            detail = document["detail"].replace("src_text", self.text_field)
            document = {**document, "status": status, "detail": detail}
        return ErrorAnswer(status, self.content_type, self.write(document))


def find_dialect(path: str) -> Dialect:
    """The API that a path belongs to. `/translate` is ours and LibreTranslate's; only the
    body tells."""
    for dialect in (DEEPL, GOOGLE, LIBRETRANSLATE):
        if any(f"{path}/".startswith(f"{begin}/") for begin in dialect.paths):
            return dialect
    return OURS


def _read_slug(document: Document) -> str:
    return str(document["type"]).rpartition(":")[2]


def _write_both(document: Document) -> dict[str, Any]:
    return {**document, **_write_libretranslate(document)}


def _explain(document: Document) -> str:
    """Their server's words, then ours."""
    said = [document["detail"], document.get("explanation")]
    return ": ".join(filter(None, said))


def _write_libretranslate(document: Document) -> dict[str, Any]:
    slug, text = _read_slug(document), _explain(document)
    if slug in _BUSY:
        text = f"Slowdown: {text}"
    elif slug in _TOO_LONG:
        text = f"Invalid request: request exceeds text limit: {text}"
    elif slug == "invalid-key":
        text = f"Invalid API key: {text}"
    return {"error": text}


_DEEPL_MESSAGES = {
    "invalid-key": "Forbidden",
    "quota-exceeded": "Quota Exceeded",
    "not-found": "Not found",
    "no-document": "Not found",
    "not-done": "Document not ready",
    "unknown-glossary": "Glossary not found",
    **dict.fromkeys(_BUSY, "Too many requests"),
}


def _write_deepl(document: Document) -> dict[str, Any]:
    message = _DEEPL_MESSAGES.get(_read_slug(document))
    if message:
        return {"message": message, "detail": document["detail"]}
    explanation = document.get("explanation")
    return {
        "message": document["detail"],
        **({"detail": explanation} if explanation else {}),
    }


#: All others are INVALID_ARGUMENT.
_GOOGLE_STATUSES = {
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_GOOGLE_REASONS = {
    "invalid-key": "forbidden",
    "key-not-allowed": "forbidden",
    "keys-unavailable": "backendError",
    "not-found": "notFound",
    "quota-exceeded": "dailyLimitExceeded",
    "internal": "internalError",
    "not-ready": "backendError",
    "deadline": "backendError",
    **dict.fromkeys(_BUSY, "rateLimitExceeded"),
}


def _write_google(document: Document) -> dict[str, Any]:
    status, message = document["status"], _explain(document)
    reason = document.get("reason") or _GOOGLE_REASONS.get(
        _read_slug(document), "invalid"
    )
    one = {"message": message, "domain": "global", "reason": reason}
    error = {"code": status, "message": message, "errors": [one]}
    return {
        "error": error | {"status": _GOOGLE_STATUSES.get(status, "INVALID_ARGUMENT")}
    }


OURS = Dialect("babelgate", (), "src_text", dict, content_type=CONTENT_TYPE)
#: A request to `/translate` that does not tell whose it is.
EITHER = Dialect("either", (), "src_text", _write_both, content_type=CONTENT_TYPE)
LIBRETRANSLATE = Dialect(
    "libretranslate",
    ("/detect", "/frontend", "/suggest", "/health", "/spec")
    + ("/translate_file", "/download_file"),
    "q",
    _write_libretranslate,
    {"too-many-rows": 400, "unknown-format": 400},
)
DEEPL = Dialect(
    "deepl",
    ("/v2", "/v3"),
    "text",
    _write_deepl,
    {"quota-exceeded": 456, "unknown-format": 400, "not-done": 503},
)
GOOGLE = Dialect(
    "google",
    ("/language/translate",),
    "q",
    _write_google,
)
