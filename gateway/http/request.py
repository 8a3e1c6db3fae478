"""The requests of this application: their client, deadline and key, which are passed as one
argument to all work for them, and their fields, which may be in JSON, a form or the URL."""

from __future__ import annotations

import math
import re
import socket
import time
import uuid
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field
from io import BytesIO
from ipaddress import IPv6Network
from typing import Any, Literal, cast
from urllib.parse import parse_qsl

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header

from contract.dialects import (
    EITHER,
    EVENT_STREAM,
    KEY_HEADERS,
    LIBRETRANSLATE,
    OURS,
    Dialect,
    find_dialect,
)
from contract.documents import WORKER_HEADER
from contract.tasks import PATHS, TRANSLATION
from documents.storage import NOBODY
from gateway.errors import (
    BodyTooLarge,
    ClientGone,
    DeadlineExceeded,
    MalformedRequest,
    Problem,
)
from gateway.http.connection import has_gone
from gateway.schemas import read_object

Fields = Mapping[str, Any]

#: nginx's headers for the client's address and the time of arrival (`t=` and Unix seconds).
_ADDRESS, _ARRIVAL = "HTTP_X_REAL_IP", "HTTP_X_REQUEST_START"
_TRACE = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_REQUEST_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
#: The secret header of the program that translates documents.
WORKER = "HTTP_" + WORKER_HEADER.upper().replace("-", "_")
#: nginx waits no longer, so an older time is from another clock.
_OLDEST_S = 60.0
#: Seconds between two checks of whether waiting is still useful.
_LOOK_S = 0.25

#: Counts a key's characters if a block succeeds.
Charge = Callable[[int], AbstractContextManager[None]]
_NOTHING = nullcontext()


class Deadline(float):
    """The end of a request's time limit, in seconds of the monotonic clock."""

    __slots__ = ()

    def check(self, stage: str) -> float:
        """Return the seconds left for a stage such as "the texts were read". Raises
        DeadlineExceeded if there are none."""
        remaining_s = self - time.monotonic()
        if remaining_s <= 0:
            raise DeadlineExceeded(stage)
        return remaining_s


def charge_nobody(characters: int) -> AbstractContextManager[None]:
    """Count nothing, for a request without a key."""
    return _NOTHING


@dataclass(eq=False)
class Timing:
    """The models of an answer, and the times of its slowest row."""

    #: The request's arrival, in seconds of the performance counter.
    began_at: float = field(default_factory=time.perf_counter)
    #: The models of the answer, each with its digest.
    models: dict[str, None] = field(default_factory=dict)
    #: Seconds in our queue, and until the backend's answer; of the latter, those of its batch
    #: and of loading the model, if it was not loaded.
    queue_s: float = 0.0
    backend_s: float = 0.0
    compute_s: float = 0.0
    load_s: float = 0.0
    #: Sentences from the cache, and the others.
    kept: int = 0
    asked: int = 0

    def note(
        self, queue_s: float, backend_s: float, compute_s: float, load_s: float = 0.0
    ) -> None:
        """Record a row that the backend has answered."""
        self.asked += 1
        if queue_s + backend_s > self.queue_s + self.backend_s:
            self.queue_s, self.backend_s = queue_s, backend_s
            self.compute_s = min(compute_s, backend_s)
            self.load_s = min(load_s, backend_s - self.compute_s)

    def name_model(self, weights: str, digest: str) -> None:
        """Record a model that has answered."""
        self.models[f"{weights}@{digest}" if digest else weights] = None

    def explain(self) -> dict[str, str]:
        """Return the models, and the times so far in the format of W3C Server Timing; empty if
        no model or cache was used."""
        if not (self.asked or self.kept):
            return {}
        named = {"model": ", ".join(self.models)} if self.models else {}
        return named | {"timing": self._write()}

    def _write(self) -> str:
        seconds = time.perf_counter() - self.began_at
        cache = ["cache;desc=hit"] if self.kept and not self.asked else []
        stages = {"gateway": max(0.0, seconds - self.queue_s - self.backend_s)}
        if self.asked:
            loading = {"load": self.load_s} if self.load_s else {}
            batch_s = self.backend_s - self.compute_s - self.load_s
            stages |= {"queue": self.queue_s, **loading, "batch": batch_s}
            stages["compute"] = self.compute_s
        timed = [f"{name};dur={1000 * spent:.1f}" for name, spent in stages.items()]
        return ", ".join([*cache, *timed])


@dataclass(frozen=True)
class Call:
    """One request's client, time limit and owner."""

    address: str
    #: The time limit of the whole request in seconds.
    limit_s: float
    deadline: Deadline
    #: The connection, if there is one.
    client: socket.socket | None = None
    #: The id of the key whose glossaries and documents the request may use.
    owner: str = NOBODY
    charge: Charge = charge_nobody
    #: Whether the work is in bulk, without a user waiting for it.
    is_bulk: bool = False
    #: The owner of the cached sentences that the request reads and adds to.
    cache_space: str = NOBODY
    #: The parent of the request's further spans (W3C Trace Context); empty without a trace.
    trace: str = ""
    timing: Timing = field(default_factory=Timing, compare=False)

    def has_gone(self) -> bool:
        """Whether the client has closed the connection."""
        return has_gone(self.client)

    def check(self, stage: str) -> float:
        """Return the seconds after which a wait for a stage must check again. Raises
        ClientGone, and the errors of `Deadline.check`."""
        if self.has_gone():
            raise ClientGone
        return min(self.deadline.check(stage), _LOOK_S)


def read_call(environ: Mapping[str, Any], longest_s: float, **known: Any) -> Call:
    """Return the call of a WSGI request, with `known` further fields. Its time limit is
    `longest_s` from its arrival at nginx, or less with `X-Timeout-Ms`. Raises
    MalformedRequest."""
    limit_s = read_limit(environ, longest_s)
    waited_s = _read_age(environ.get(_ARRIVAL, ""))
    return Call(
        _find_client(environ.get(_ADDRESS) or environ.get("REMOTE_ADDR", "")),
        limit_s,
        Deadline(time.monotonic() + limit_s - waited_s),
        environ.get("gunicorn.socket"),
        is_bulk=WORKER in environ,
        **known,
    )


def read_limit(environ: Mapping[str, Any], longest_s: float) -> float:
    """Return a request's time limit in seconds: `X-Timeout-Ms` can only lower `longest_s`.
    Raises MalformedRequest if the header is not a whole number above 0."""
    header = environ.get("HTTP_X_TIMEOUT_MS")
    if header is None:
        return longest_s
    given_ms = float(header) if header.isascii() and header.isdigit() else 0.0
    if not given_ms:
        raise MalformedRequest(
            "X-Timeout-Ms: expected a whole number of milliseconds above 0."
        )
    return min(longest_s, given_ms / 1000)


def read_request_id(environ: Mapping[str, Any]) -> str:
    """Return the id that nginx has assigned to the request, or a new one."""
    given = environ.get("HTTP_X_REQUEST_ID", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def read_trace(header: str) -> str:
    """Return the header `traceparent` if it is valid, else an empty string."""
    return header if _TRACE.fullmatch(header) else ""


def _find_client(address: str) -> str:
    """Return a client's address, or for IPv6 its /64 network: it owns every address there."""
    if ":" in address and "." not in address:
        with suppress(ValueError):
            return str(IPv6Network((address, 64), strict=False))
    return address


def _read_age(header: str) -> float:
    try:
        age_s = time.time() - float(header.removeprefix("t="))
    except ValueError:
        return 0.0
    return age_s if 0 <= age_s < _OLDEST_S else 0.0


class GatewayRequest(Request):
    """A request, with the results of the layers and their checks."""

    id = ""
    #: Its route's `Operation` of `gateway/openapi.py`, if it has a route.
    operation: Any = None
    #: The most fields that its query or form may have, and entries that a list may have.
    most_fields = 1000
    #: Its arrival, in seconds of the performance counter.
    started_at = 0.0
    #: Its time limit in seconds.
    limit_s = math.inf
    #: The language under which it is counted, if it is a translation request.
    target: str | None = None
    #: The id of its key, which owns the glossaries and documents that it may use, and the owner
    #: of the cached sentences that it shares; NOBODY without keys.
    owner = cache_space = NOBODY
    #: The parent of its further spans in a trace, and its own span, if it has one.
    trace = ""
    span: Any = None
    #: The models and times of its answer, once the work has begun.
    timing: Timing | None = None
    #: Counts the key's characters.
    charge: Charge | None = None
    #: Whether its whole body has arrived, and the body.
    is_read = False
    body = b""
    #: The bytes of memory reserved for its body, and a function that changes them.
    held = 0
    release: Callable[[GatewayRequest, int], None] | None = None
    #: Parses a large body in a thread.
    parse_beside: Callable[..., dict[str, Any]] | None = None
    _fields: dict[str, Any] | Problem | None = None
    _json: dict[str, Any] | Problem | None = None

    def open_call(
        self, target: str | None = None, *, limit_s: float | None = None
    ) -> Call:
        """Return the call for the work of this request, which counts for `target` from now on.
        Its time limit may be another `limit_s`. Raises MalformedRequest."""
        self.target = target or self.target
        self.timing = self.timing or Timing(self.started_at)
        return read_call(
            self.environ,
            limit_s or self.limit_s,
            owner=self.owner,
            charge=self.charge or charge_nobody,
            cache_space=self.cache_space,
            trace=self.trace,
            timing=self.timing,
        )

    @property
    def wants_events(self) -> bool:
        """Whether the client requests an answer as server-sent events."""
        return EVENT_STREAM in self.environ.get("HTTP_ACCEPT", "")

    def close(self) -> None:
        """Release the memory reserved for its body."""
        if self.release:
            self.release(self, 0)


def read_fields(request: GatewayRequest) -> Fields:
    """Return all fields; those of the body replace those of the URL. Repeated fields become a
    list, null fields are omitted. The content of a body determines its type, as curl sends JSON
    as a form. Raises MalformedRequest and BodyTooLarge."""
    return _read_once(request, "_fields", _read_fields)


def read_json(request: GatewayRequest) -> dict[str, Any]:
    """Return the JSON object in the body. Raises MalformedRequest."""
    return _read_once(request, "_json", lambda it: _parse(it, read_object, it.body))


def speaks_libretranslate(fields: Fields) -> bool:
    """Whether a request to `/translate` has LibreTranslate's fields and not ours."""
    if OURS.fields.text in fields:
        return False
    given = fields.keys()
    return LIBRETRANSLATE.fields.text in fields or (
        given.isdisjoint(OURS.fields) and not given.isdisjoint(LIBRETRANSLATE.fields)
    )


def find_spoken(request: GatewayRequest) -> Dialect:
    """Return a request's API, by its path and, on `/translate`, by fields that have come."""
    if request.path != PATHS[TRANSLATION]:
        return find_dialect(request.path)
    if not request.is_read:
        # LibreTranslate's clients send their keys in fields, some in those of the query.
        if speaks_libretranslate(request.args):
            return LIBRETRANSLATE
        headers = "Authorization", *KEY_HEADERS
        return OURS if any(name in request.headers for name in headers) else EITHER
    try:
        fields = read_fields(request)
    except Problem:
        return EITHER
    if speaks_libretranslate(fields):
        return LIBRETRANSLATE
    return EITHER if fields.keys().isdisjoint(OURS.fields) else OURS


def _read_once(
    request: GatewayRequest,
    name: Literal["_fields", "_json"],
    read: Callable[[GatewayRequest], dict[str, Any]],
) -> dict[str, Any]:
    """Parse a part of the request once; later calls return or raise the same."""
    found: dict[str, Any] | Problem | None = getattr(request, name)
    if found is None:
        try:
            found = read(request)
        except Problem as problem:
            found = copy(problem)  # without its frames
        setattr(request, name, found)
    if isinstance(found, Problem):
        raise copy(found)
    return found


def _read_fields(request: GatewayRequest) -> dict[str, Any]:
    most = request.most_fields
    fields = _read_pairs(request.query_string, most) | _read_body(request, most)
    lists = (value for value in fields.values() if isinstance(value, list))
    if max(len(fields), *map(len, lists), 0) > most:  # in JSON
        raise _refuse_number(most)
    return {name: value for name, value in fields.items() if value is not None}


def _read_body(request: GatewayRequest, most: int) -> dict[str, Any]:
    body = request.body.removeprefix(BOM_UTF8)
    if request.is_json or body.lstrip()[:1] in (b"{", b"["):
        return read_json(request) if body else {}
    if request.mimetype == "multipart/form-data":
        return _parse(request, _read_parts, body, request.content_type, most)
    return _parse(request, _read_pairs, body, most)


def _parse(
    request: GatewayRequest, function: Callable[..., dict[str, Any]], *given: Any
) -> dict[str, Any]:
    """Parse the request's body with the function, a large one in a thread."""
    parse = request.parse_beside
    return parse(function, *given) if parse else function(*given)


def _read_parts(body: bytes, content_type: str, most: int) -> dict[str, Any]:
    kind, options = parse_options_header(content_type)
    parser = FormDataParser(
        lambda *_, **__: BytesIO(),  # a file is no field; nothing is written to disk
        max_form_memory_size=len(body),
        max_form_parts=most,
        silent=False,
    )
    try:
        _, form, _ = parser.parse(BytesIO(body), kind.lower(), len(body), options)
    except RequestEntityTooLarge as error:
        raise _refuse_number(most) from error
    except ValueError as error:
        raise MalformedRequest(
            "The form cannot be read: it has no boundary, or ends before its last one."
        ) from error
    parts: list[tuple[str | None, str]] = list(form.items(multi=True))
    if any(name is None for name, _ in parts):
        raise MalformedRequest("A part of the form has no name.")
    return _merge(cast(list[tuple[str, str]], parts))


def check_number(text: bytes, most: int) -> None:
    """Raise BodyTooLarge if a query or form has more fields, before it is parsed."""
    if text.count(b"&") >= most:
        raise _refuse_number(most)


def _refuse_number(most: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"A form, list or URL may have at most {most} fields; this one has more."
    )


def _read_pairs(text: bytes, most: int) -> dict[str, Any]:
    """Parse a query, or a form in the same format."""
    check_number(text, most)
    try:
        return _merge(parse_qsl(text.decode(), keep_blank_values=True, errors="strict"))
    except UnicodeDecodeError as error:
        raise MalformedRequest("A field is not UTF-8.") from error


def _merge(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Merge `q=a&q=b` into a list; `q[]=a` and `q[0]=a`, which some clients send, too."""
    values: dict[str, list[str]] = {}
    lists = set()
    for given, value in pairs:
        name, bracket, _ = given.partition("[")
        values.setdefault(name, []).append(value)
        if bracket:
            lists.add(name)
    return {
        name: found if len(found) > 1 or name in lists else found[0]
        for name, found in values.items()
    }
