"""Sends the texts of a document to the gateway, on behalf of its owner. Requests are retried if
the gateway is busy, restarting or gone; a text that keeps failing is divided, or refused.
"""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from clients.errors import ServerError
from clients.server import ApiClient, ApiRequest, Attempt, MayRetry, RetryPolicy
from clients.translations import TranslationOptions
from contract.documents import OWNER_HEADER, WORKER_HEADER
from contract.problems import write_problem
from contract.tasks import PATHS, TRANSLATION
from documents.errors import TranslationFailed
from documents.pieces import TextPiece, divide, join
from documents.storage import NOBODY, Order

#: Concurrent requests per document: enough to fill the models' batches without other clients.
MOST_AT_ONCE = 8
_FEWEST_AT_ONCE = 1
_PATIENCE = RetryPolicy(
    timeout_s=60.0,
    connect_timeout_s=5.0,
    first_delay_s=0.4,
    longest_delay_s=5.0,
    longest_retry_after_s=60.0,
)
#: Attempts at a request if the gateway answers with internal errors.
_FAULTS = 5
#: Refusals of a request for lack of time or memory before it is divided.
_REFUSALS = 3
#: Timeouts and out-of-memory errors before an indivisible text is refused. One counts four
#: times if other requests succeeded meanwhile: then the text is at fault, not the stack.
_MOST_FAILURES, _WEIGHT = 20, 4
#: The total seconds that a request waits for a busy gateway, and for an unavailable one.
_LONGEST_BUSY_S, _LONGEST_GONE_S = 3_600.0, 86_400.0

_BUSY = frozenset({408, 429, 502, 503, 504})
_OVERLOADED = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.GATEWAY_TIMEOUT})
#: The statuses that a text may cause although the problem does not name it.
_OF_TEXTS = frozenset({413, 500, 504})
_OUT_OF_MEMORY = "urn:babelgate:out-of-memory"
_SILENT = write_problem("deadline", 504, "The gateway did not answer in time.")
_GONE = write_problem("not-ready", 503, "The gateway cannot be reached.")
_WRONG = write_problem("internal", 500, "The gateway sent an invalid answer.")
#: The position of a refused text in the request, as a problem names it.
_PLACE = re.compile(r"src_text\[(\d+)\](?:: )?")

Wait = Callable[[float], None]


class ConcurrencyLimit:
    """The limit on concurrent requests for a document. It grows as requests succeed, and halves
    when the gateway has no time for one."""

    def __init__(self) -> None:
        self.allowed = float(MOST_AT_ONCE)
        #: The number of requests that have succeeded.
        self.successes = 0
        self._lock = threading.Lock()

    def quicken(self) -> None:
        """Raise the limit after a successful request."""
        with self._lock:
            self.successes += 1
            self.allowed = min(MOST_AT_ONCE, self.allowed + 1 / self.allowed)

    def slow(self) -> None:
        """Halve the limit after a request that the gateway had no time for."""
        with self._lock:
            self.allowed = max(_FEWEST_AT_ONCE, self.allowed / 2)


class _Retries:
    """The retries of a request, decided from the gateway's answers."""

    def __init__(self, pace: ConcurrencyLimit) -> None:
        self._pace = pace
        self._successes = pace.successes
        self._failures = 0
        self._waited_s: defaultdict[int, float] = defaultdict(float)
        #: The last answer other than 200.
        self.problem: Mapping[str, Any] = _WRONG
        #: Whether fewer or shorter texts are more likely to succeed.
        self.is_too_much = False

    def count(self, attempt: Attempt, number: int, delay_s: float) -> bool:
        """Record a failed attempt. Return whether to retry the request after the delay."""
        said = _SILENT if attempt.is_timeout else attempt.problem
        self.problem = said if "type" in said else _GONE
        status = int(self.problem["status"])
        type = self.problem["type"]
        is_late = status == HTTPStatus.GATEWAY_TIMEOUT
        needs_too_much = is_late or type == _OUT_OF_MEMORY
        is_refused = needs_too_much or status in _OVERLOADED
        self.is_too_much = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or (
            is_refused and number > _REFUSALS
        )
        if status in _OVERLOADED:
            self._pace.slow()
        if needs_too_much:
            self._failures += _WEIGHT if self._pace.successes > self._successes else 1
            self._successes = self._pace.successes
            return self._failures < _MOST_FAILURES
        if status not in _BUSY:
            return status >= 500 and number < _FAULTS
        is_busy = status == HTTPStatus.TOO_MANY_REQUESTS
        longest_s = _LONGEST_BUSY_S if is_busy else _LONGEST_GONE_S
        waited_s = self._waited_s[status]
        self._waited_s[status] += delay_s
        return waited_s < longest_s

    def refuse(self, texts: int) -> TranslationFailed:
        """Return the last answer as an error, without the position in the sent request."""
        detail = str(self.problem.get("detail") or "The gateway refused a text.")
        place = _PLACE.search(detail)
        slug = str(self.problem["type"]).rpartition(":")[2]
        status = int(self.problem["status"])
        is_of_text = texts == 1 and status in _OF_TEXTS
        index = int(place[1]) if place else 0 if is_of_text else None
        problem = write_problem(slug, status, _PLACE.sub("", detail))
        return TranslationFailed(problem, index)


@dataclass(frozen=True)
class Gateway:
    """The gateway of this machine, and the secret that it shares with this program."""

    address: str
    secret: str

    @contextmanager
    def connect(self, order: Order, wait: Wait) -> Iterator[DocumentTranslator]:
        """Yield a client for one document. If `wait` raises, the request ends."""
        headers = {"X-Real-IP": order.address, WORKER_HEADER: self.secret}
        if order.owner != NOBODY:
            headers[OWNER_HEADER] = order.owner
        url = f"http://{self.address}"
        with ApiClient(
            url, _PATIENCE, MOST_AT_ONCE, headers=headers, wait=wait
        ) as client:
            yield DocumentTranslator(client)


class DocumentTranslator:
    """A client that translates the texts of one document. Threads may share it."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.pace = ConcurrencyLimit()

    def translate(self, texts: Sequence[str], options: TranslationOptions) -> list[str]:
        """Return a translation per text. Raises TranslationFailed and the errors of `wait`."""
        retries = _Retries(self.pace)

        def may_divide() -> bool:
            return retries.is_too_much and len(_divide(texts, options)) > 1

        def may_retry(attempt: Attempt, number: int, delay_s: float) -> bool:
            return retries.count(attempt, number, delay_s) and not may_divide()

        try:
            body = options.write_body(texts)
            answer = self._ask_gateway(PATHS[TRANSLATION], body, may_retry)
        except ServerError as error:
            if may_divide():
                return self._translate_divided(texts, options)
            raise retries.refuse(len(texts)) from error
        self.pace.quicken()
        match answer:
            case {"translated": [*translated]} if len(translated) == len(texts):
                return [str(text) for text in translated]
        raise TranslationFailed(_WRONG)

    def identify(self, text: str) -> str | None:
        """Return the likeliest language of a text, if any. Raises the errors of `translate`."""
        retries = _Retries(self.pace)
        body = json.dumps({"src_text": text}).encode()
        try:
            answer = self._ask_gateway("/identify", body, retries.count)
        except ServerError as error:
            raise retries.refuse(1) from error
        match answer:
            case {"languages": [{"language": str(language)}, *_]}:
                return language
        return None

    def _ask_gateway(self, path: str, body: bytes, may_retry: MayRetry) -> Any:
        request = ApiRequest("POST", path, [body], "application/json")
        return self._client.ask(request, may_retry)

    def _translate_divided(
        self, texts: Sequence[str], options: TranslationOptions
    ) -> list[str]:
        """Translate two halves in turn: of several texts, or of the sentences of one."""
        pieces = _divide(texts, options)
        found = list[str]()
        middle = len(pieces) // 2
        for half in (pieces[:middle], pieces[middle:]):
            try:
                found += self.translate([piece.text for piece in half], options)
            except TranslationFailed as error:
                index = None if error.index is None else len(found) + error.index
                place = 0 if len(texts) == 1 and index is not None else index
                raise TranslationFailed(error.problem, place) from error
        joined = map(TextPiece, found, [piece.gap for piece in pieces])
        return list(join(joined, options.source, options.target))


def _divide(texts: Sequence[str], options: TranslationOptions) -> list[TextPiece]:
    """Return several texts as pieces, or the sentences of one."""
    if len(texts) > 1:
        return [*map(TextPiece, texts)]
    return divide(texts[0], options.source, options.format, 1)
