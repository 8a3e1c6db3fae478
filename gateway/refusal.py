"""Says no before Flask is asked. While the models are overloaded most answers are refusals,
and each takes CPU from the answers: this way costs half of the way through a route.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway import bodies
from gateway.admission import Admission
from gateway.caller import read_caller, read_request_id
from gateway.errors import CONTENT_TYPE, Overloaded, Problem
from gateway.schemas import normalize_language
from gateway.settings import Settings
from gateway.telemetry import Telemetry
from gateway.translator import weigh
from torchserve_backend.catalog import TRANSLATION, Catalog

_ROUTES = ("/", "/translate")
#: A larger body takes longer to look at than it saves.
_MOST_BYTES = 4096
#: What a body that is no request for a translation raises here; its route says what is wrong.
_NO_REQUEST = (
    *(AttributeError, LookupError, RecursionError, TypeError, ValueError),
    Problem,
)


@dataclass(frozen=True)
class EarlyRefusal:
    """A WSGI application around Flask's."""

    app: Any
    admission: Admission
    catalog: Catalog
    settings: Settings
    telemetry: Telemetry

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """As any WSGI application."""
        if self.admission.is_refusing and _is_short_translation(environ):
            began = time.perf_counter()
            problem = self._judge(environ)
            if problem:
                seconds = time.perf_counter() - began
                return self._refuse(problem, seconds, environ, start_response)
        return self.app(environ, start_response)  # type: ignore[no-any-return]

    def _judge(self, environ: dict[str, Any]) -> Overloaded | None:
        """Why a request is refused. Its body is read and stays there for its route."""
        try:
            wanted = json.loads(bodies.take(environ, self.settings))
            target = normalize_language(wanted["tgt_lang"])
            model = self.catalog.route(TRANSLATION, target).name
            given = wanted["src_text"]
            caller = read_caller(environ, self.settings.timeout_s)
        except _NO_REQUEST:
            return None
        texts = given if isinstance(given, list) else [given]
        if not texts or not all(isinstance(text, str) for text in texts):
            return None
        environ["babelgate.target"] = target
        try:
            self.admission.check(model, caller, [weigh(text) for text in texts])
        except Overloaded as problem:
            return problem
        return None

    def _refuse(
        self,
        problem: Problem,
        seconds: float,
        environ: dict[str, Any],
        start_response: Any,
    ) -> Iterable[bytes]:
        route, target = environ["PATH_INFO"], environ["babelgate.target"]
        self.telemetry.count_request(route, problem.status, seconds)
        self.telemetry.translations.labels(target, problem.status).inc()
        request_id = read_request_id(environ)
        body = json.dumps(problem.to_document(request_id)).encode()
        headers = {
            "Content-Type": CONTENT_TYPE,
            "Content-Length": str(len(body)),
            "X-Request-ID": request_id,
            **problem.headers,
        }
        start_response(f"{problem.status} {problem.title}", list(headers.items()))
        return [body]


def _is_short_translation(environ: dict[str, Any]) -> bool:
    length = environ.get("CONTENT_LENGTH", "")
    return (
        environ["REQUEST_METHOD"] == "POST"
        and environ["PATH_INFO"] in _ROUTES
        and length.isdecimal()
        and 0 < int(length) <= _MOST_BYTES
        and "HTTP_CONTENT_ENCODING" not in environ
    )
