"""Refuses requests before Gunicorn parses them. Under overload most answers are
refusals, and each takes CPU from the others: this way costs a third of the way through
Gunicorn and Flask.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httptools

from catalog import Catalog
from contract.dialects import FOREIGN, LIBRETRANSLATE, OURS, Dialect, find_dialect
from contract.languages import normalize_language
from contract.tasks import TRANSLATION
from gateway.admission.control import Admission
from gateway.errors import Overloaded, Problem
from gateway.http.request import read_call, read_request_id
from gateway.metrics import Telemetry
from gateway.services.translation import weigh
from gateway.settings import Settings

_ROUTES = {path.encode(): path for api in (OURS, *FOREIGN) for path in api.translating}
#: Looking at a larger body costs more than it saves.
_MOST_BYTES = 4096
#: The headers that matter, and their names in WSGI.
_HEADERS = {
    name.encode(): f"HTTP_{name.upper().replace('-', '_')}"
    for name in ("x-timeout-ms", "x-real-ip", "x-request-start", "x-request-id")
}
#: Only Gunicorn and the routes can handle these.
_OTHER_HEADERS = {b"connection", b"content-encoding", b"expect", b"origin"}
#: The errors of other bodies. The route then says what is wrong.
_NO_REQUEST = (
    *(AttributeError, LookupError, RecursionError, TypeError, ValueError),
    Problem,
)


@dataclass
class Message:
    """The message that httptools finds in a connection's bytes, part by part."""

    environ: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    route: str | None = None
    #: Whether the whole request has arrived.
    is_complete: bool = False
    #: Whether only its route can answer the request.
    is_other: bool = False

    def on_url(self, url: bytes) -> None:
        # A second request in the same bytes goes to Gunicorn.
        self.is_other |= self.route is not None or url not in _ROUTES
        self.route = _ROUTES.get(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _HEADERS:
            self.environ[_HEADERS[name]] = value.decode("latin-1")
        self.is_other |= name in _OTHER_HEADERS

    def on_body(self, body: bytes) -> None:
        self.body += body
        self.is_other |= len(self.body) > _MOST_BYTES

    def on_message_complete(self) -> None:
        self.is_complete = True


def read_message(data: bytes) -> Message:
    """The request at the beginning of `data`."""
    message = Message()
    parser = httptools.HttpRequestParser(message)
    try:
        parser.feed_data(data)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        message.is_other = True
    if message.is_complete:
        kind = parser.get_method(), parser.get_http_version()
        message.is_other |= kind != (b"POST", "1.1")
    return message


@dataclass(frozen=True)
class LoadShedder:
    """Decides which requests are refused, and counts them."""

    admission: Admission
    catalog: Catalog
    settings: Settings
    telemetry: Telemetry

    @property
    def is_likely(self) -> bool:
        """Whether it is worth looking for refusals now."""
        return self.admission.is_refusing

    def answer(self, data: bytes) -> bytes | None:
        """A whole HTTP answer that refuses the request in `data`, or None if its route must
        decide."""
        message = read_message(data)
        if message.is_other or not message.is_complete or message.route is None:
            return None
        began = time.perf_counter()
        try:
            wanted = json.loads(message.body)
            # On `/translate` the fields tell whose request it is.
            may_be_theirs = message.route in LIBRETRANSLATE.translating
            is_theirs = may_be_theirs and OURS.text_field not in wanted
            dialect = LIBRETRANSLATE if is_theirs else find_dialect(message.route)
            target = normalize_language(wanted[dialect.target_field])
            model = self.catalog.route(TRANSLATION, target).name
            costs = self._weigh(wanted, dialect)
            caller = read_call(message.environ, self.settings.timeout_s)
        except _NO_REQUEST:
            return None
        try:
            self.admission.check(model, caller, costs)
        except Overloaded as problem:
            seconds = time.perf_counter() - began
            request_id = read_request_id(message.environ)
            answer = dialect.answer(problem.to_document(request_id))
            self.telemetry.count_request(message.route, answer.status, seconds)
            self.telemetry.count_translation(target, answer.status, seconds)
            return answer.write({"X-Request-ID": request_id, **problem.headers})
        return None

    def _weigh(self, wanted: Mapping[str, Any], dialect: Dialect) -> list[float]:
        """The work of each text. Raises ValueError for more hypotheses than the map allows."""
        given = wanted[dialect.text_field]
        texts = given if isinstance(given, list) else [given]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise TypeError(given)
        limits = self.catalog.translation
        beams = dialect.count_beams(wanted, limits.max_beam_size)
        if beams > max(limits.max_beam_size, limits.max_alternatives + 1):
            raise ValueError(beams)
        return [weigh(text, beams) for text in texts]
