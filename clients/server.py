"""Asks the stack on port 7777 for image sizes and captions, with retries."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, ReadTimeoutError

from clients.errors import ServerError
from clients.frames import Size
from contract.tasks import CAPTIONING, PATHS

DEFAULT_URL = "http://127.0.0.1:7777"
#: Nobody's captions are larger; more is not read.
MAX_ANSWER_BYTES = 16 << 20
_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0
#: The longest that a server may ask us to wait.
_LONGEST_RETRY_AFTER_S = 300.0
_CONNECT_TIMEOUT_S = 10.0

Body = Sequence[bytes | memoryview]


@dataclass(frozen=True)
class Patience:
    """How often a request is sent before it has failed, and how long one may take."""

    attempts: int = 10
    timeout_s: float = 120


class Stopped(Exception):
    """The run ends, so nobody waits for the answer."""


class Server:
    """A stack. Several threads can use it, each with its own open connection."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        patience: Patience = Patience(),
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
        self._pool = urllib3.connection_from_url(url, maxsize=connections, block=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._pool.close()

    def stop(self) -> None:
        """Sends nothing more. Attempts that wait raise Stopped."""
        self._stopping.set()

    def find_input(self) -> Size:
        """The image size of the captioning model. Raises ServerError if it is not known."""
        tasks = self._ask("GET", "/tasks", ())
        try:
            inputs = {task["task"]: task.get("input") for task in tasks}
        except (AttributeError, KeyError, TypeError) as error:
            raise ServerError(f"{self.url}/tasks: not a list of tasks") from error
        if CAPTIONING not in inputs:
            raise ServerError(f"{self.url} does not serve captioning")
        try:
            size = inputs[CAPTIONING]
            return Size(int(size["height"]), int(size["width"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ServerError(
                f"{self.url}/tasks does not say yet what size captioning takes: is its model "
                "there? --full-size sends frames as they are"
            ) from error

    def caption(self, body: Body, frames: int) -> list[str]:
        """One caption for each frame of a `.npy`; raises ServerError, or Stopped."""
        answer = self._ask("POST", PATHS[CAPTIONING], body)
        captions = answer.get("captions") if isinstance(answer, dict) else None
        if not isinstance(captions, list) or len(captions) != frames:
            raise ServerError(
                f"{self.url}{PATHS[CAPTIONING]}: expected {frames} captions"
            )
        return [str(caption) for caption in captions]

    def _ask(self, method: str, path: str, body: Body) -> Any:
        """The answer's JSON, from the first attempt that succeeds."""
        trouble = ""
        for attempt in range(1, self._patience.attempts + 1):
            if self._stopping.is_set():
                raise Stopped
            asked_delay_s = 0.0
            try:
                answer, content = self._send(method, path, body)
            except HTTPError as error:
                trouble = _explain(error)
            else:
                if answer.status == 200:
                    return self._parse(path, content)
                trouble = _read_problem(answer, content)
                if answer.status != 429 and answer.status < 500:
                    raise ServerError(f"{self.url}{path}: {trouble}")
                asked_delay_s = _read_retry_after(answer)
            if attempt < self._patience.attempts:
                self._stopping.wait(max(asked_delay_s, choose_delay(attempt)))
        raise ServerError(
            f"{self.url}{path}: {trouble} (attempts: {self._patience.attempts})"
        )

    def _send(
        self, method: str, path: str, body: Body
    ) -> tuple[urllib3.BaseHTTPResponse, bytes]:
        timeout_s = self._patience.timeout_s
        deadline = time.monotonic() + timeout_s
        length = sum(len(part) for part in body)
        answer = self._pool.urlopen(
            method,
            self._prefix + path,
            # urllib3's types know no list of buffers, http.client sends one.
            body=cast(Any, body) if body else None,
            headers={
                "Content-Type": "application/octet-stream",
                "Content-Length": str(length),
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
            content = self._read(answer, deadline)
        except BaseException:
            answer.close()
            raise
        finally:
            answer.release_conn()
        return answer, content

    def _read(self, answer: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        """The whole content. urllib3's time-out applies to each piece, the deadline to all."""
        content = bytearray()
        while piece := answer.read1(65536):
            content += piece
            if time.monotonic() > deadline:
                raise ReadTimeoutError(self._pool, "", "the answer took too long")
            if len(content) > MAX_ANSWER_BYTES:
                raise ServerError(
                    f"{self.url}: an answer of over {MAX_ANSWER_BYTES} bytes"
                )
        return bytes(content)

    def _parse(self, path: str, content: bytes) -> Any:
        try:
            return json.loads(content)
        except ValueError as error:
            raise ServerError(f"{self.url}{path}: the answer is not JSON") from error


def choose_delay(attempt: int) -> float:
    """Seconds after each attempt: ever longer, and by chance shorter than another client's."""
    longest_s: float = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** (attempt - 1))
    return longest_s * random.uniform(0.5, 1)


def _read_retry_after(answer: urllib3.BaseHTTPResponse) -> float:
    policy = urllib3.Retry(retry_after_max=int(_LONGEST_RETRY_AFTER_S))
    try:
        return policy.get_retry_after(answer) or 0.0
    except InvalidHeader:
        return 0.0


def _read_problem(answer: urllib3.BaseHTTPResponse, content: bytes) -> str:
    """What the server says about its refusal, or just the status."""
    try:
        problem = json.loads(content)
        detail = problem.get("detail") or problem.get("title")
    except (ValueError, AttributeError):
        detail = None
    return f"{answer.status} {detail or answer.reason or ''}".strip()


def _explain(error: HTTPError) -> str:
    """What happened on the wire, without urllib3's objects."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, ReadTimeoutError) or isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError):
        return (cause.strerror or str(cause) or type(cause).__name__).lower()
    return "the connection broke"
