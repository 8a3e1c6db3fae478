"""Asks the gateway for translations, on behalf of a document's owner. A gateway that is busy,
restarting or gone is asked again; a text that cannot be done is divided, or refused.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, ReadTimeoutError

from contract.documents import OWNER_HEADER, WORKER_HEADER
from contract.problems import write_problem
from contract.tasks import PATHS, TRANSLATION
from documents.division import TextPiece, divide, join
from documents.errors import TranslationFailed
from documents.storage import NOBODY, Order

if TYPE_CHECKING:
    from documents.formats.format import Markup

#: Requests of one document that are with the gateway at the same time: enough to fill the
#: models' batches where nobody else asks.
MOST_AT_ONCE = 8
_FEWEST_AT_ONCE = 1
_CONNECT_S, _ANSWER_S = 5.0, 60.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.2, 5.0
_LONGEST_RETRY_AFTER_S = 60
#: How often a request may fail by a fault of the gateway's own.
_FAULTS = 5
#: How often a request is refused for lack of time or memory before it is divided.
_PATIENCE = 3
#: So often a text that cannot be divided may need too much. It counts four times if others of
#: its document were translated meanwhile: then it is the text, and not the stack.
_MOST_FAILURES, _WEIGHT = 20, 4
#: How long a request waits in all: for a gateway that has no room for it, and for one that is
#: not there.
_LONGEST_BUSY_S, _LONGEST_GONE_S = 3_600.0, 86_400.0

_BUSY = frozenset(
    {
        *(HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS),
        *(HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE),
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_OVERLOADED = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.GATEWAY_TIMEOUT})
_OUT_OF_MEMORY = "out-of-memory"
#: A problem's place in the request.
_PLACE = re.compile(r"src_text\[(\d+)\](?:: )?")

Wait = Callable[[float], None]


class TranslationRefused(TranslationFailed):
    """The gateway will not translate this. `index` is the text's place, if it is one text's."""

    def __init__(self, problem: Mapping[str, Any], index: int | None = None) -> None:
        super().__init__(problem)
        self.index = index


@dataclass(frozen=True)
class _Reply:
    """A reply of the gateway."""

    status: int
    content: Mapping[str, Any]
    retry_after_s: float = 0.0

    @property
    def slug(self) -> str:
        return str(self.content.get("type", "")).rpartition(":")[2] or "internal"

    @property
    def needs_too_much(self) -> bool:
        """Whether the texts took more time than there is, or memory."""
        is_late = self.status == HTTPStatus.GATEWAY_TIMEOUT
        return is_late or self.slug == _OUT_OF_MEMORY

    def refuse(self, texts: int = 1) -> TranslationRefused:
        """Without the place in a request that nobody else has seen."""
        detail = str(self.content.get("detail") or "The gateway has refused a text.")
        place = _PLACE.search(detail)
        index = 0 if texts == 1 else int(place[1]) if place else None
        problem = write_problem(self.slug, self.status, _PLACE.sub("", detail))
        return TranslationRefused(problem, index)


_SILENT = _Reply(504, write_problem("deadline", 504, "The gateway was silent."))
_GONE = _Reply(503, write_problem("not-ready", 503, "The gateway does not answer."))


@dataclass(frozen=True)
class DocumentOptions:
    """The options that all requests of a document have in common."""

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


class ConcurrencyLimit:
    """How many requests of a document are sent at once: more while they succeed, and half as
    many where the gateway has no time for them."""

    def __init__(self) -> None:
        self.allowed = float(MOST_AT_ONCE)
        #: How many requests have succeeded.
        self.successes = 0
        self._lock = threading.Lock()

    def quicken(self) -> None:
        """A request has succeeded."""
        with self._lock:
            self.successes += 1
            self.allowed = min(MOST_AT_ONCE, self.allowed + 1 / self.allowed)

    def slow(self) -> None:
        """The gateway had no time for a request."""
        with self._lock:
            self.allowed = max(_FEWEST_AT_ONCE, self.allowed / 2)


class _Retries:
    """How often and how long a request is sent again, by what the gateway answers."""

    def __init__(self, pace: ConcurrencyLimit) -> None:
        self._pace = pace
        self._successes = pace.successes
        self.attempts = 0
        self._failures = 0
        self._waited_s: defaultdict[int, float] = defaultdict(float)

    def count(self, reply: _Reply) -> bool:
        """Notes an answer other than 200. Whether the request may be sent again."""
        self.attempts += 1
        if reply.status in _OVERLOADED:
            self._pace.slow()
        if reply.needs_too_much:
            self._failures += _WEIGHT if self._pace.successes > self._successes else 1
            self._successes = self._pace.successes
            return self._failures < _MOST_FAILURES
        if reply.status not in _BUSY:
            return reply.status >= 500 and self.attempts < _FAULTS
        is_busy = reply.status == HTTPStatus.TOO_MANY_REQUESTS
        longest_s = _LONGEST_BUSY_S if is_busy else _LONGEST_GONE_S
        return self._waited_s[reply.status] < longest_s

    def wait(self, reply: _Reply, wait: Wait) -> None:
        """Lets time pass before the next attempt."""
        delay_s = max(reply.retry_after_s, _choose_delay(self.attempts))
        self._waited_s[reply.status] += delay_s
        wait(delay_s)


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
        self,
        texts: Sequence[str],
        wanted: DocumentOptions,
        wait: Wait,
        pace: ConcurrencyLimit,
    ) -> list[str]:
        """A translation for each text. Raises TranslationRefused, and what `wait` raises."""
        retries, path = _Retries(pace), PATHS[TRANSLATION]
        body = wanted.write(texts)
        while (reply := self._ask(path, body, wanted.order)).status != HTTPStatus.OK:
            may_try = retries.count(reply)
            if _is_too_much(reply, retries.attempts):
                if len(texts) > 1:
                    return self._translate_halves(texts, wanted, wait, pace)
                pieces = divide(texts[0], wanted.src_lang, wanted.markup, 1)
                if len(pieces) > 1:
                    return self._translate_pieces(pieces, wanted, wait, pace)
            if not may_try:
                raise reply.refuse(len(texts))
            retries.wait(reply, wait)
        pace.quicken()
        return _read_translations(reply.content, len(texts))

    def identify(self, text: str, order: Order, wait: Wait) -> str | None:
        """The likeliest language of a text, if it has letters. Raises what `translate`
        raises."""
        retries, body = _Retries(ConcurrencyLimit()), {"src_text": text}
        while (reply := self._ask("/identify", body, order)).status != HTTPStatus.OK:
            if not retries.count(reply):
                raise reply.refuse()
            retries.wait(reply, wait)
        return _read_language(reply.content)

    def _translate_halves(
        self,
        texts: Sequence[str],
        wanted: DocumentOptions,
        wait: Wait,
        pace: ConcurrencyLimit,
    ) -> list[str]:
        middle = len(texts) // 2
        first = self.translate(texts[:middle], wanted, wait, pace)
        try:
            return first + self.translate(texts[middle:], wanted, wait, pace)
        except TranslationRefused as error:
            index = None if error.index is None else middle + error.index
            raise TranslationRefused(error.problem, index) from error

    def _translate_pieces(
        self,
        pieces: Sequence[TextPiece],
        wanted: DocumentOptions,
        wait: Wait,
        pace: ConcurrencyLimit,
    ) -> list[str]:
        """The translation of one text by its sentences."""
        texts = [piece.text for piece in pieces]
        try:
            found = self._translate_halves(texts, wanted, wait, pace)
        except TranslationRefused as error:
            raise TranslationRefused(error.problem, 0) from error
        joined = map(TextPiece, found, [piece.gap for piece in pieces])
        return list(join(joined, wanted.src_lang, wanted.order.tgt_lang))

    def _ask(self, path: str, body: Mapping[str, Any], order: Order) -> _Reply:
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
        except ReadTimeoutError:
            return _SILENT
        except (HTTPError, ValueError):
            return _GONE
        return _Reply(answer.status, content, _read_retry_after(answer))


def _is_too_much(reply: _Reply, attempts: int) -> bool:
    """Whether fewer texts, or shorter ones, may have a better chance."""
    if reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return True
    is_refused = reply.status in _OVERLOADED or reply.needs_too_much
    return is_refused and attempts > _PATIENCE


def _read_translations(answer: Mapping[str, Any], count: int) -> list[str]:
    match answer.get("translated"):
        case [*translated] if len(translated) == count:
            return [str(text) for text in translated]
    raise TranslationRefused(
        write_problem("internal", 500, "The gateway has answered wrongly.")
    )


def _read_language(answer: Mapping[str, Any]) -> str | None:
    match answer.get("languages"):
        case [{"language": str(language)}, *_]:
            return language
    return None


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
