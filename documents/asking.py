"""Asks the gateway for translations, on behalf of a document's owner and for as long as the
document waits: a gateway that is busy, restarting or gone is asked again.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader

from contract.documents import OWNER_HEADER, WORKER_HEADER
from contract.problems import write_problem
from contract.tasks import PATHS, TRANSLATION
from documents.formats.format import Markup
from documents.storage import NOBODY, Order

#: Requests of one document that are with the gateway at the same time: enough to fill the
#: models' batches where nobody else asks.
MOST_AT_ONCE = 8
_FEWEST_AT_ONCE = 1
_CONNECT_S, _ANSWER_S = 5.0, 60.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.2, 5.0
_LONGEST_RETRY_AFTER_S = 60
#: How often a request may fail by a fault of the gateway's own.
_FAULTS = 5
#: How often a request is refused for lack of time before it is divided.
_PATIENCE = 3

_BUSY = frozenset(
    {
        *(HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS),
        *(HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE),
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_OVERLOADED = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.GATEWAY_TIMEOUT})
#: A problem's place in the request.
_PLACE = re.compile(r"src_text\[(\d+)\](?:: )?")

Wait = Callable[[float], None]


class Refused(Exception):
    """The gateway will not translate this. `index` is the text's place, if it is one text's."""

    def __init__(self, problem: Mapping[str, Any], index: int | None = None) -> None:
        super().__init__(problem["type"])
        self.problem = problem
        self.index = index


@dataclass(frozen=True)
class Wanted:
    """What all requests of a document have in common."""

    order: Order
    src_lang: str | None
    markup: Markup

    def write(self, texts: Sequence[str]) -> dict[str, Any]:
        """The body of a request."""
        optional = {"src_lang": self.src_lang, "glossary": self.order.glossary}
        return {
            "src_text": list(texts),
            "tgt_lang": self.order.tgt_lang,
            "format": self.markup,
            **{name: value for name, value in optional.items() if value is not None},
        }


class Pace:
    """How many requests of a document are sent at once: more while they succeed, and half as
    many where the gateway has no time for them."""

    def __init__(self) -> None:
        self.allowed = float(MOST_AT_ONCE)
        self._lock = threading.Lock()

    def quicken(self) -> None:
        """A request has succeeded."""
        with self._lock:
            self.allowed = min(MOST_AT_ONCE, self.allowed + 1 / self.allowed)

    def slow(self) -> None:
        """The gateway had no time for a request."""
        with self._lock:
            self.allowed = max(_FEWEST_AT_ONCE, self.allowed / 2)


class Gateway:
    """The gateway of this machine. Threads may share it."""

    def __init__(self, address: str, secret: str, connections: int) -> None:
        self._secret = secret
        self._pool = urllib3.connection_from_url(
            f"http://{address}", maxsize=connections, block=False
        )

    def close(self) -> None:
        """Closes all connections."""
        self._pool.close()

    def translate(
        self, texts: Sequence[str], wanted: Wanted, wait: Wait, pace: Pace
    ) -> list[str]:
        """A translation for each text. Raises Refused, and what `wait` raises."""
        body = wanted.write(texts)
        attempt = 0
        while True:
            status, answer, retry_after_s = self._ask(
                PATHS[TRANSLATION], body, wanted.order
            )
            if status == HTTPStatus.OK:
                pace.quicken()
                return _read_translations(answer, len(texts))
            attempt += 1
            if status in _OVERLOADED:
                pace.slow()
            is_too_much = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or (
                status in _OVERLOADED and attempt > _PATIENCE
            )
            if is_too_much and len(texts) > 1:
                return self._translate_halves(texts, wanted, wait, pace)
            if not _is_worth_another_try(status, attempt):
                raise _refuse(status, answer)
            wait(max(retry_after_s, _choose_delay(attempt)))

    def identify(self, text: str, order: Order, wait: Wait) -> str | None:
        """The likeliest language of a text, if it has letters."""
        attempt = 0
        while True:
            status, answer, retry_after_s = self._ask(
                "/identify", {"src_text": text}, order
            )
            if status == HTTPStatus.OK:
                return _read_language(answer)
            attempt += 1
            if not _is_worth_another_try(status, attempt):
                raise _refuse(status, answer)
            wait(max(retry_after_s, _choose_delay(attempt)))

    def _translate_halves(
        self, texts: Sequence[str], wanted: Wanted, wait: Wait, pace: Pace
    ) -> list[str]:
        middle = len(texts) // 2
        first = self.translate(texts[:middle], wanted, wait, pace)
        try:
            return first + self.translate(texts[middle:], wanted, wait, pace)
        except Refused as error:
            index = None if error.index is None else middle + error.index
            raise Refused(error.problem, index) from error

    def _ask(
        self, path: str, body: Mapping[str, Any], order: Order
    ) -> tuple[int, Mapping[str, Any], float]:
        """Status, content, and the seconds that the gateway asks us to wait; it is as if it
        were not ready where nobody answers."""
        headers = {
            "Content-Type": "application/json",
            "X-Real-IP": order.address,
            WORKER_HEADER: self._secret,
        }
        if order.owner != NOBODY:
            headers[OWNER_HEADER] = order.owner
        try:
            answer = self._pool.urlopen(
                "POST",
                path,
                body=json.dumps(body).encode(),
                headers=headers,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=_ANSWER_S),
            )
            content = json.loads(answer.data)
        except (HTTPError, ValueError):
            return HTTPStatus.SERVICE_UNAVAILABLE, {}, 0.0
        return answer.status, content, _read_retry_after(answer)


def _is_worth_another_try(status: int, attempt: int) -> bool:
    return status in _BUSY or (
        status >= HTTPStatus.INTERNAL_SERVER_ERROR and attempt < _FAULTS
    )


def _read_translations(answer: Mapping[str, Any], count: int) -> list[str]:
    match answer.get("translated"):
        case [*translated] if len(translated) == count:
            return [str(text) for text in translated]
    raise Refused(write_problem("internal", 500, "The gateway has answered wrongly."))


def _read_language(answer: Mapping[str, Any]) -> str | None:
    match answer.get("languages"):
        case [{"language": str(language)}, *_]:
            return language
    return None


def _refuse(status: int, answer: Mapping[str, Any]) -> Refused:
    """What the gateway has said, without the place in a request that nobody else has seen."""
    slug = str(answer.get("type", "")).rpartition(":")[2] or "internal"
    detail = str(answer.get("detail") or "The gateway has refused a text.")
    place = _PLACE.search(detail)
    index = int(place[1]) if place else None
    return Refused(write_problem(slug, status, _PLACE.sub("", detail)), index)


def _choose_delay(attempt: int) -> float:
    """Seconds after each attempt: ever longer, and by chance shorter than another's."""
    longest_s: float = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** min(attempt, 10))
    return longest_s * random.uniform(0.5, 1)


def _read_retry_after(answer: urllib3.BaseHTTPResponse) -> float:
    policy = urllib3.Retry(retry_after_max=_LONGEST_RETRY_AFTER_S)
    try:
        return policy.get_retry_after(answer) or 0.0
    except InvalidHeader:
        return 0.0
