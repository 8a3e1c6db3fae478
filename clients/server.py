"""Asks the stack on port 7777, with retries."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar, cast
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, ReadTimeoutError

from clients.errors import ServerError
from clients.frames import FrameSize
from contract.tasks import CAPTIONING, PATHS

DEFAULT_URL = "http://127.0.0.1:7777"
#: Nobody's captions are larger; more is not read.
MAX_ANSWER_BYTES = 16 << 20
_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0
#: The longest that a server may ask us to wait.
_LONGEST_RETRY_AFTER_S = 300.0
_CONNECT_TIMEOUT_S = 10.0

_PIECE_BYTES = 1 << 16

Body = Sequence[bytes | memoryview]
Answer = urllib3.BaseHTTPResponse
Read = TypeVar("Read")


@dataclass(frozen=True)
class RetryPolicy:
    """How often a request is sent before it has failed, and how long one may take."""

    attempts: int = 10
    timeout_s: float = 120


@dataclass(frozen=True)
class ApiRequest:
    """A request to the API; its body is sent part by part."""

    method: str
    path: str
    body: Body = ()
    content_type: str = "application/octet-stream"
    #: Statuses of 5xx after which it is not sent again.
    final: frozenset[int] = frozenset()
    #: This many answers of 5xx are enough, though the server allows more.
    most_faults: int | None = None


@dataclass(frozen=True)
class _Problem:
    """Why an attempt has failed. Status 0: there was no answer."""

    status: int
    text: str
    delay_s: float = 0.0

    @property
    def may_pass(self) -> bool:
        return self.status in (0, 429) or self.status >= 500


class RunStopped(Exception):
    """The run ends, so nobody waits for the answer."""


class ApiClient:
    """A stack. Several threads can use it, each with its own open connection."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        patience: RetryPolicy = RetryPolicy(),
        connections: int = 1,
        key: str = "",
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ServerError(f"--url {url}: expected a URL such as {DEFAULT_URL}")
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._patience = patience
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._stopping = threading.Event()
        #: Until then the server has no capacity for anybody.
        self._full_until = 0.0
        self._pool = urllib3.connection_from_url(url, maxsize=connections, block=True)

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._pool.close()

    def stop(self) -> None:
        """Sends nothing more. Attempts that wait raise Stopped."""
        self._stopping.set()

    def find_input(self) -> FrameSize:
        """The image size of the captioning model. Raises ServerError if it is not known."""
        tasks = self.ask(ApiRequest("GET", "/tasks"))
        try:
            inputs = {task["task"]: task.get("input") for task in tasks}
        except (AttributeError, KeyError, TypeError) as error:
            raise ServerError(f"{self.url}/tasks: not a list of tasks") from error
        if CAPTIONING not in inputs:
            raise ServerError(f"{self.url} does not serve captioning")
        try:
            size = inputs[CAPTIONING]
            return FrameSize(int(size["height"]), int(size["width"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ServerError(
                f"{self.url}/tasks does not say yet what size captioning takes: is its model "
                "there? --full-size sends frames as they are"
            ) from error

    def caption(self, body: Body, frames: int) -> list[str]:
        """One caption for each frame of a `.npy`; raises ServerError, or RunStopped."""
        answer = self.ask(ApiRequest("POST", PATHS[CAPTIONING], body))
        captions = answer.get("captions") if isinstance(answer, dict) else None
        if not isinstance(captions, list) or len(captions) != frames:
            raise ServerError(
                f"{self.url}{PATHS[CAPTIONING]}: expected {frames} captions"
            )
        return [str(caption) for caption in captions]

    def ask(self, request: ApiRequest) -> Any:
        """The JSON of the first attempt that succeeds; None where that has no content.
        Raises ServerError, or RunStopped."""
        content = self._try(request, self._read)
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise ServerError(
                f"{self.url}{request.path}: the answer is not JSON"
            ) from error

    def download(self, request: ApiRequest, file: BinaryIO) -> None:
        """Writes a file of any length, like `ask`."""
        start = file.tell()

        def write(answer: Answer, _: float) -> None:
            file.truncate(file.seek(start))
            for piece in answer.stream(_PIECE_BYTES):
                if self._stopping.is_set():
                    raise RunStopped
                file.write(piece)

        self._try(request, write)

    def wait(self, delay_s: float) -> None:
        """Returns after this time; raises Stopped as soon as the run ends."""
        if self._stopping.wait(delay_s):
            raise RunStopped

    def _try(self, request: ApiRequest, read: Callable[[Answer, float], Read]) -> Read:
        """Return the result of `read` for the first answer that is 2xx."""
        attempt = faults = 0
        while True:
            # Others would take the place for which the refused one waits.
            self.wait(max(0.0, self._full_until - time.monotonic()))
            found = self._attempt(request, read)
            if not isinstance(found, _Problem):
                return found
            attempt += 1
            if found.status == 429:
                self._full_until = time.monotonic() + found.delay_s
            faults += found.status >= 500
            if not found.may_pass or found.status in request.final:
                raise self._fail(request, found, "")
            if attempt == self._patience.attempts or faults == request.most_faults:
                raise self._fail(request, found, f" (attempts: {attempt})")
            self._stopping.wait(max(found.delay_s, choose_delay(attempt)))

    def _attempt(
        self, request: ApiRequest, read: Callable[[Answer, float], Read]
    ) -> Read | _Problem:
        try:
            return self._send(request, read)
        except HTTPError as error:
            return _Problem(0, _explain(error))

    def _fail(self, request: ApiRequest, problem: _Problem, ending: str) -> ServerError:
        message = f"{self.url}{request.path}: {problem.text}{ending}"
        return ServerError(message, problem.text, problem.status)

    def _send(
        self, request: ApiRequest, read: Callable[[Answer, float], Read]
    ) -> Read | _Problem:
        timeout_s = self._patience.timeout_s
        deadline = time.monotonic() + timeout_s
        answer = self._pool.urlopen(
            request.method,
            self._prefix + request.path,
            # urllib3's types know no list of buffers, http.client sends one.
            body=cast(Any, request.body) if request.body else None,
            headers={
                "Content-Type": request.content_type,
                "Content-Length": str(sum(map(len, request.body))),
                **self._headers,
            },
            retries=False,
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(
                connect=min(_CONNECT_TIMEOUT_S, timeout_s), read=timeout_s
            ),
        )
        try:
            if 200 <= answer.status < 300:
                return read(answer, deadline)
            return _read_problem(answer, self._read(answer, deadline))
        except BaseException:
            answer.close()
            raise
        finally:
            answer.release_conn()

    def _read(self, answer: Answer, deadline: float) -> bytes:
        """The whole content. urllib3's time-out applies to each piece, the deadline to all."""
        content = bytearray()
        while piece := answer.read1(_PIECE_BYTES):
            content += piece
            if time.monotonic() > deadline:
                raise ReadTimeoutError(self._pool, "", "the answer took too long")
            if len(content) > MAX_ANSWER_BYTES:
                raise ServerError(
                    f"{self.url}: an answer of over {MAX_ANSWER_BYTES} bytes"
                )
        return bytes(content)


def choose_delay(attempt: int) -> float:
    """Seconds after each attempt: ever longer, and by chance shorter than another client's."""
    longest_s: float = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** (attempt - 1))
    return longest_s * random.uniform(0.5, 1)


def _read_retry_after(answer: Answer) -> float:
    policy = urllib3.Retry(retry_after_max=int(_LONGEST_RETRY_AFTER_S))
    try:
        return policy.get_retry_after(answer) or 0.0
    except InvalidHeader:
        return 0.0


def _read_problem(answer: Answer, content: bytes) -> _Problem:
    """Return the server's reason for its refusal, or just the status."""
    try:
        problem = json.loads(content)
        detail = problem.get("detail") or problem.get("title")
    except (ValueError, AttributeError):
        detail = None
    text = f"{answer.status} {detail or answer.reason or ''}".strip()
    return _Problem(answer.status, text, _read_retry_after(answer))


def _explain(error: HTTPError) -> str:
    """Explain a failure on the wire without urllib3's objects."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, ReadTimeoutError) or isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError):
        return (cause.strerror or str(cause) or type(cause).__name__).lower()
    return "the connection broke"
