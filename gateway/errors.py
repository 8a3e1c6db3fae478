"""Every error that a client can get, as a problem document (RFC 9457). On the paths of another
API, contract/dialects.py writes it in that API's form. A class's first line has its status, its
stable slug and, if waiting helps, the seconds of `Retry-After`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from contract.problems import write_problem
from text.errors import LanguageNotServed

TOO_LARGE = "The body is larger than this server takes."


def write_retry(after_s: float) -> dict[str, str]:
    """Return the header `Retry-After`, in whole seconds."""
    return {"Retry-After": str(max(1, math.ceil(after_s)))}


class Problem(Exception):
    """An answer other than 200. `slug` is stable; programs may compare it."""

    status = 500
    slug = "internal"
    headers: Mapping[str, str] = {}

    def __init_subclass__(
        cls, *, status: int | None = None, slug: str = "", retry_after_s: int = 0
    ) -> None:
        """Set the attributes that a class declares in its first line; it inherits the rest."""
        cls.status, cls.slug = status or cls.status, slug or cls.slug
        if retry_after_s:
            cls.headers = write_retry(retry_after_s)

    def __init__(
        self, detail: str, *, retry_after_s: float | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra
        if retry_after_s is not None:
            self.headers = write_retry(retry_after_s)

    def to_document(self, **members: Any) -> dict[str, Any]:
        """Return the document that the client gets. `members` are added last."""
        extra = self.extra | members
        return write_problem(self.slug, self.status, self.detail, **extra)


class MalformedRequest(Problem, status=400, slug="malformed-request"):
    """The body or a header cannot be parsed. For another API also every request that its own
    server refuses, in that server's wording and with an `explanation`."""


class HeaderTooLarge(MalformedRequest, status=431, slug="header-too-large"):
    """The URL or a header is too long."""


class InvalidRequest(Problem, status=422, slug="invalid-request"):
    """Fields are missing or invalid; `errors` names each."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        """`faults` are the expected values, by field."""
        detail = "; ".join(f"{field}: {fault}" for field, fault in faults.items())
        errors = [{"field": name, "expected": fault} for name, fault in faults.items()]
        super().__init__(detail, errors=errors)


class UnknownLanguage(Problem, status=422, slug="unknown-language"):
    """A language that this stack does not serve."""

    def __init__(self, error: LanguageNotServed) -> None:
        super().__init__(str(error), field=error.field, served=error.served)


class Forbidden(Problem, status=403, slug="forbidden"):
    """The server does not allow this request."""


class LocalOnly(Forbidden):
    """Only programs on the server's own machine may use this path."""


class InvalidKey(Problem, status=401, slug="invalid-key"):
    """The request has no key, or an invalid one. RFC 9110 requires a challenge; RFC 6750
    defines how it distinguishes the two."""

    def __init__(self, *, is_given: bool) -> None:
        if is_given:
            super().__init__("This key is unknown or has been revoked.")
        else:
            super().__init__(
                "A key is required: send it as Authorization: Bearer, as X-API-Key, or, in a "
                "body of at most 128 KiB, as the field api_key."
            )
        fault = ', error="invalid_token"' if is_given else ""
        self.headers = {"WWW-Authenticate": f'Bearer realm="babelgate"{fault}'}


class KeyNotAllowed(Problem, status=403, slug="key-not-allowed"):
    """The key is valid, but not for this route."""


class QuotaExceeded(Problem, status=403, slug="quota-exceeded"):
    """The key has too few characters left this month. Not 429: clients retry after it, which
    is useless before the next month."""


class RateLimited(Problem, status=429, slug="rate-limited"):
    """The key sends requests faster than it may."""


class KeysUnavailable(Problem, status=503, slug="keys-unavailable", retry_after_s=5):
    """The database is unavailable, and this key has not been seen before."""


class UnknownGlossary(Problem, status=404, slug="unknown-glossary"):
    """The glossary does not exist, or belongs to another key."""


class NoDictionary(Problem, status=422, slug="no-dictionary"):
    """The glossary has no dictionary for these languages."""


class TooManyGlossaries(Problem, status=403, slug="too-many-glossaries"):
    """The maximum number of glossaries is reached."""


class GlossariesUnavailable(
    Problem, status=503, slug="glossaries-unavailable", retry_after_s=5
):
    """The database of glossaries is unavailable."""


class UnsupportedImage(Problem, status=415, slug="unsupported-image"):
    """A file of an unsupported format."""


class UnsupportedEncoding(Problem, status=415, slug="unsupported-encoding"):
    """An unsupported Content-Encoding. RFC 9110 requires a list of supported ones."""

    def __init__(self, detail: str, expected: str) -> None:
        super().__init__(detail)
        self.headers = {"Accept-Encoding": expected}


class UnsupportedDocument(Problem, status=415, slug="unknown-format"):
    """A document of an unsupported format."""


class InvalidImage(Problem, status=422, slug="invalid-image"):
    """A damaged or unsuitable image or array."""


class NotFound(Problem, status=404, slug="not-found"):
    """The path does not exist."""


class NoDocument(Problem, status=404, slug="no-document"):
    """The document does not exist, or belongs to another key."""

    def __init__(self) -> None:
        super().__init__("There is no such document, or its time has passed.")


class NotDone(Problem, status=409, slug="not-done"):
    """The document has no result: its translation is not finished, or has failed."""


class TaskNotServed(Problem, status=404, slug="task-not-served"):
    """A task that the map does not contain."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f'This stack does not serve {task}: its map has no section "{task}".'
        )


class MethodNotAllowed(Problem, status=405, slug="method-not-allowed"):
    """The path exists, but accepts only other methods."""

    def __init__(self, detail: str, allowed: Sequence[str]) -> None:
        super().__init__(detail)
        self.headers = {"Allow": ", ".join(sorted(allowed))}


class BodyTooLarge(Problem, status=413, slug="body-too-large"):
    """The body, or an image in it, is too large."""


class BodyTooSlow(Problem, status=408, slug="body-too-slow"):
    """The client sends its body too slowly."""


class TooManyRows(Problem, status=413, slug="too-many-rows"):
    """The texts have more sentences than one request may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"src_text: more than {limit} sentences; send them in several requests.",
            limit=limit,
        )


class ClientGone(Problem, status=499, slug="client-gone"):
    """The client has closed its connection; nginx uses the same status."""

    def __init__(self) -> None:
        super().__init__("The client has closed the connection.")


class TooManyDocuments(
    Problem, status=429, slug="too-many-documents", retry_after_s=30
):
    """Too many documents of this client, or of all clients, are waiting. Some must finish
    before the server accepts more."""


class DiskFull(Problem, status=507, slug="disk-full"):
    """The server has too little disk space to store the document or glossary."""


class Overloaded(Problem, status=429, slug="queue-full", retry_after_s=1):
    """The server has too much work. A retry after `retry_after_s` may succeed."""


class TooManyConnections(Overloaded, slug="too-many-connections"):
    """Too many requests at the same time."""


class NotReady(Problem, status=503, slug="not-ready", retry_after_s=5):
    """No worker can answer at the moment."""


class DeadlineExceeded(Problem, status=504, slug="deadline"):
    """The request's time limit passed before a stage such as "the texts were read"."""

    def __init__(self, stage: str) -> None:
        super().__init__(f"The deadline passed before {stage}.")


class InternalError(Problem):
    """An internal fault. The log has details under the same request id."""


class ForeignProblem(Problem):
    """Another program's problem, with its status, slug, detail and further members."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        known = ("type", "title", "status", "detail")
        extra = {name: value for name, value in document.items() if name not in known}
        super().__init__(str(document["detail"]), **extra)
        self.status = int(document["status"])
        self.slug = str(document["type"]).rpartition(":")[2]
        if self.status == NotReady.status:
            self.headers = NotReady.headers


class RowProblem(ForeignProblem):
    """The handler's problem with a row."""


class TextTooLong(RowProblem, status=422, slug="text-too-long"):
    """A word has more tokens than the model accepts."""


class DeviceFull(RowProblem, status=503, slug="out-of-memory"):
    """The row does not fit into the device's memory, even alone."""
