"""Refuses requests before Flask gets them. Under overload, most answers are refusals, and each
takes CPU time from the others: here it needs a third of the time in Gunicorn and Flask."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog import Catalog
from contract.dialects import LIBRETRANSLATE, OURS, Dialect, find_dialect
from contract.languages import choose_language
from contract.tasks import TRANSLATION
from gateway.admission.control import Admission
from gateway.errors import Overloaded, Problem
from gateway.http.message import Message
from gateway.http.request import read_call, read_request_id
from gateway.metrics import Telemetry
from gateway.services.translation import weigh
from gateway.settings import Settings

#: Parsing a larger body costs more than it saves.
_MOST_BYTES = 4096
#: Only routes can handle these headers.
_OTHER_HEADERS = frozenset(("HTTP_CONTENT_ENCODING", "HTTP_ORIGIN"))
#: The errors of other bodies, which the route reports.
_NO_REQUEST = (
    AttributeError, LookupError, OverflowError,
    RecursionError, TypeError, ValueError, Problem,
)  # fmt: skip


@dataclass(frozen=True)
class LoadShedder:
    """A filter that refuses requests under overload, and counts them."""

    admission: Admission
    catalog: Catalog
    settings: Settings
    telemetry: Telemetry

    @property
    def is_likely(self) -> bool:
        """Whether an early check is likely to refuse a request now."""
        return self.admission.is_refusing

    def answer(self, message: Message) -> bytes | None:
        """Return a whole HTTP answer that refuses a request; None if its route must decide."""
        if len(message.body) > _MOST_BYTES or _OTHER_HEADERS & message.environ.keys():
            return None
        began = time.perf_counter()
        try:
            wanted = json.loads(message.body)
            # On `/translate`, only the fields show the request's API.
            may_be_theirs = message.path in LIBRETRANSLATE.translating
            is_theirs = may_be_theirs and OURS.fields.text not in wanted
            dialect = LIBRETRANSLATE if is_theirs else find_dialect(message.path)
            target = choose_language(
                wanted[dialect.fields.target], self.catalog.languages
            )
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
            answer = dialect.answer(problem.to_document(request_id=request_id))
            self.telemetry.count_answer(message.path, target, answer.status, seconds)
            return answer.write({"X-Request-ID": request_id, **problem.headers})
        return None

    def _weigh(self, wanted: Mapping[str, Any], dialect: Dialect) -> list[float]:
        """Return the work of each different text with letters. Raises ValueError if the map
        allows fewer hypotheses or no text needs a model, TypeError for anything but texts."""
        name, source, target = dialect.fields
        given = wanted[name]
        texts = given if isinstance(given, list) else [given]
        rows = {text for text in texts if any(map(str.isalpha, text))}
        if not rows or wanted.get(source) == wanted[target]:
            raise ValueError(given)
        limits = self.catalog.translation
        beams = dialect.count_beams(wanted, limits.max_beam_size)
        if beams > max(limits.max_beam_size, limits.max_alternatives + 1):
            raise ValueError(beams)
        return [weigh(text, beams) for text in rows]
