"""Sends requests to the stack on port 7777, with retries."""

from __future__ import annotations

import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, TypeVar, cast
from urllib.parse import urlsplit

import urllib3
from pydantic_core import from_json
from urllib3.exceptions import HTTPError, InvalidHeader, ProtocolError, ReadTimeoutError

from clients.errors import ServerError
from clients.frames import FrameSize
from contract.dialects import EVENT_STREAM
from contract.tasks import CAPTIONING, PATHS

DEFAULT_URL = "http://127.0.0.1:7777"
#: The most bytes read from an answer; no captions are larger.
MAX_ANSWER_BYTES = 16 << 20
_PIECE_BYTES, _SENT_BYTES = 1 << 16, 1 << 18
#: OpenSSL's reasons if the other side does not speak TLS.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})

Body = Sequence[bytes | memoryview]
Answer = urllib3.BaseHTTPResponse
Read = TypeVar("Read")
#: Reads an answer until a deadline on the monotonic clock.
Reader = Callable[[Answer, float], Read]


@dataclass(frozen=True)
class RetryPolicy:
    """The most attempts of a request, their time limits and the delays between them."""

    attempts: int = 10
    timeout_s: float = 120
    connect_timeout_s: float = 10.0
    #: The delay between the first two attempts, and the longest between any two.
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    #: The most of a server's Retry-After that is obeyed.
    longest_retry_after_s: float = 300.0

    def choose_delay(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt: exponential backoff with jitter."""
        delay_s = self.first_delay_s * 2.0 ** min(attempt - 1, 30)
        return min(self.longest_delay_s, delay_s) * random.uniform(0.5, 1)


@dataclass(frozen=True)
class ApiRequest:
    """A request to the API; its body is sent part by part."""

    method: str
    path: str
    body: Body = ()
    content_type: str = "application/octet-stream"
    accept: str = "*/*"
    #: The 5xx statuses after which the request is not retried.
    final: frozenset[int] = frozenset()
    #: The 5xx answers after which the request has failed, even if attempts remain.
    most_faults: int | None = None


@dataclass(frozen=True)
class Attempt:
    """A failed attempt of a request. The status is 0 if there was no answer."""

    status: int
    text: str
    #: The seconds that the server asks us to wait.
    retry_after_s: float = 0.0
    #: The problem document.
    problem: Mapping[str, Any] = field(default_factory=dict)
    is_timeout: bool = False

    @property
    def may_pass(self) -> bool:
        """Whether another attempt may succeed."""
        return self.status in (0, 429) or self.status >= 500


#: Decides whether to retry after an attempt, given its number (from 1) and the delay.
MayRetry = Callable[[Attempt, int, float], bool]


class RunStopped(Exception):
    """The run is ending, so the answer is not needed."""


class ApiClient:
    """A client of one stack. Several threads can share it, each with its own connection."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        patience: RetryPolicy = RetryPolicy(),
        connections: int = 1,
        key: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        cacert: str = "",
        wait: Callable[[float], None] | None = None,
    ) -> None:
        """Trust the certificates in the file `cacert`; without it, those of the machine or of
        `SSL_CERT_FILE`. `wait` sleeps for some seconds before another attempt; its exceptions
        end the request."""
        if cacert and not url.lower().startswith("https:"):
            raise ServerError(f"--cacert requires an https URL, not {url}")
        if not (key.isascii() and key.isprintable()):
            raise ServerError("--key: expected printable ASCII characters")
        trusted = {"ssl_context": _trust(cacert)} if cacert else {}
        try:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError
            self._pool = urllib3.connection_from_url(
                url, maxsize=connections, block=True, **trusted
            )
        except ValueError as error:
            said = f"--url {url}: expected a URL such as {DEFAULT_URL}"
            raise ServerError(said) from error
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._patience = patience
        self._headers = {"Authorization": f"Bearer {key}"} if key else headers or {}
        self._wait = wait or self.wait
        self._stopping = threading.Event()
        #: The time until which the server has no capacity for any request.
        self._full_until = 0.0

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._pool.close()

    def stop(self) -> None:
        """Stop sending. Attempts that wait raise RunStopped."""
        self._stopping.set()

    def find_input(self) -> FrameSize:
        """Return the captioning model's image size. Raises ServerError if it is unknown."""
        tasks = self.ask(ApiRequest("GET", "/tasks"))
        try:
            inputs = {task["task"]: task.get("input") for task in tasks}
        except (AttributeError, KeyError, TypeError) as error:
            raise ServerError(f"{self.url}/tasks: expected a list of tasks") from error
        if CAPTIONING not in inputs:
            raise ServerError(f"{self.url} does not serve captioning")
        match inputs[CAPTIONING]:
            case {"height": int(height), "width": int(width)}:
                return FrameSize(height, width)
        raise ServerError(
            f"{self.url}/tasks does not yet state the input size of captioning: is its "
            "model ready? --full-size sends frames as they are"
        )

    def caption(self, body: Body, frames: int) -> list[str]:
        """Return a caption for each frame of a `.npy`. Raises ServerError, or RunStopped."""
        match self.ask(ApiRequest("POST", PATHS[CAPTIONING], body)):
            case {"captions": [*captions]} if len(captions) == frames:
                return [str(caption) for caption in captions]
        raise ServerError(f"{self.url}{PATHS[CAPTIONING]}: expected {frames} captions")

    def ask(self, request: ApiRequest, may_retry: MayRetry | None = None) -> Any:
        """Return the JSON of the first attempt that succeeds; None if it has no content.
        Raises ServerError, or RunStopped."""

        def read(answer: Answer, deadline: float) -> Any:
            content = self._read_content(answer, deadline)
            return from_json(content) if content else None

        return self._try(request, read, may_retry)

    def follow(self, request: ApiRequest, tell: Callable[[str, Any], None]) -> Any:
        """Return the content of `done`, the last server-sent event of an answer. `tell`
        receives the name and content of each event before it, from the first again after a
        broken connection. Raises ServerError, or RunStopped."""

        def read(answer: Answer, _: float) -> Any:
            for name, content in read_events(answer.stream(_PIECE_BYTES)):
                if self._stopping.is_set():
                    raise RunStopped
                match name, content:
                    case "error", {"detail": str(detail), "status": int(status)}:
                        said = f"{self.url}{request.path}: {detail}"
                        raise ServerError(said, detail, status)
                    case "error", _:
                        raise ValueError("not a problem document")
                    case "done", _:
                        answer.drain_conn()
                        return content
                tell(name, content)
            raise ProtocolError("the event stream broke off")

        return self._try(replace(request, accept=EVENT_STREAM), read)

    def download(self, request: ApiRequest, file: BinaryIO) -> None:
        """Write an answer of any length to a file. Raises the same errors as `ask`."""
        start = file.tell()

        def write(answer: Answer, _: float) -> None:
            file.truncate(file.seek(start))
            for piece in answer.stream(_PIECE_BYTES):
                if self._stopping.is_set():
                    raise RunStopped
                file.write(piece)

        self._try(request, write)

    def wait(self, delay_s: float) -> None:
        """Sleep for this time. Raises RunStopped as soon as the run ends."""
        if self._stopping.wait(delay_s):
            raise RunStopped

    def _try(
        self, request: ApiRequest, read: Reader[Read], may_retry: MayRetry | None = None
    ) -> Read:
        """Return the result of `read` for the first 2xx answer."""
        number = faults = 0
        while True:
            number += 1
            # Otherwise new requests would overtake the one that the server has refused.
            self._wait(max(0.0, self._full_until - time.monotonic()))
            try:
                found = self._send(request, read)
            except HTTPError as error:
                if fault := _explain_tls(error):
                    raise ServerError(f"{self.url}: {fault}", fault) from error
                is_timeout = isinstance(error, ReadTimeoutError)
                found = Attempt(0, _explain(error), is_timeout=is_timeout)
            if not isinstance(found, Attempt):
                return found
            if found.status == 429:
                self._full_until = time.monotonic() + found.retry_after_s
            faults += found.status >= 500
            may_pass = found.may_pass and found.status not in request.final
            is_last = number == self._patience.attempts or faults == request.most_faults
            delay_s = max(found.retry_after_s, self._patience.choose_delay(number))
            is_again = may_pass and not is_last
            if not (may_retry(found, number, delay_s) if may_retry else is_again):
                ending = f" (attempts: {number})" if may_pass else ""
                message = f"{self.url}{request.path}: {found.text}{ending}"
                raise ServerError(message, found.text, found.status)
            self._wait(delay_s)

    def _send(self, request: ApiRequest, read: Reader[Read]) -> Read | Attempt:
        timeout_s = self._patience.timeout_s
        deadline = time.monotonic() + timeout_s
        # The connect timeout applies to the sending of each piece.
        pieces = (
            memoryview(part)[start : start + _SENT_BYTES]
            for part in request.body
            for start in range(0, len(part), _SENT_BYTES)
        )
        answer = self._pool.urlopen(
            request.method,
            self._prefix + request.path,
            # http.client accepts buffers, though urllib3's types do not.
            body=cast(Any, pieces) if request.body else None,
            headers={
                "Accept": request.accept,
                "Content-Type": request.content_type,
                "Content-Length": str(sum(map(len, request.body))),
                **self._headers,
            },
            retries=False,
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(
                connect=min(self._patience.connect_timeout_s, timeout_s), read=timeout_s
            ),
        )
        try:
            if 200 <= answer.status < 300:
                return read(answer, deadline)
            return self._read_problem(answer, deadline)
        except ValueError:
            return Attempt(answer.status, "the answer is not JSON")
        except BaseException:
            answer.close()
            raise
        finally:
            answer.release_conn()

    def _read_content(self, answer: Answer, deadline: float) -> bytes:
        """Read all content. urllib3's timeout applies to each piece, the deadline to all."""
        content = bytearray()
        while piece := answer.read1(_PIECE_BYTES):
            content += piece
            if time.monotonic() > deadline:
                raise ReadTimeoutError(self._pool, "", "the answer took too long")
            if len(content) > MAX_ANSWER_BYTES:
                raise ServerError(
                    f"{self.url}: the answer has over {MAX_ANSWER_BYTES} bytes"
                )
        return bytes(content)

    def _read_problem(self, answer: Answer, deadline: float) -> Attempt:
        """Return the attempt with the server's reason for its refusal, or just the status."""
        content = self._read_content(answer, deadline)
        try:
            problem = from_json(content)
            detail = problem.get("detail") or problem.get("title")
        except (ValueError, AttributeError):
            problem, detail = {}, None
        longest_s = int(self._patience.longest_retry_after_s)
        try:
            policy = urllib3.Retry(retry_after_max=longest_s)
            retry_after_s = policy.get_retry_after(answer) or 0.0
        except (InvalidHeader, ValueError):  # a number or a year without end
            retry_after_s = 0.0
        text = f"{answer.status} {detail or answer.reason or ''}".strip()
        return Attempt(answer.status, text, retry_after_s, problem)


def read_events(pieces: Iterable[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield each event's name and content; pieces may end within one. Raises ValueError."""
    rest = b""
    for piece in pieces:
        *events, rest = (rest + piece).split(b"\n\n")
        if len(rest) > MAX_ANSWER_BYTES:
            raise ServerError(f"an event has over {MAX_ANSWER_BYTES} bytes")
        for event in events:
            name, _, data = event.partition(b"\ndata: ")
            if name.startswith(b"event: "):  # the others are keep-alives
                yield name[7:].decode(), from_json(data)


def _trust(cacert: str) -> ssl.SSLContext:
    """Return a context that trusts only the certificates in a file. Raises ServerError."""
    try:
        context = ssl.create_default_context(cafile=cacert)
    except OSError as error:
        raise ServerError(f"--cacert {cacert}: {error.strerror or error}") from error
    # The stack's own certificate suffices without its issuer's, as it does for curl.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _explain_tls(error: HTTPError) -> str:
    """Explain a TLS error that a retry cannot fix; empty for any other error."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"the certificate is not trusted: {cause.verify_message}. Give --cacert a "
            "file with the stack's or its authority's, and --url one of its names"
        )
    is_plain = isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS
    return "this port does not speak TLS: use http" if is_plain else ""


def _explain(error: HTTPError) -> str:
    """Explain a connection error without mentioning urllib3's objects."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, ReadTimeoutError) or isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError):
        return (cause.strerror or str(cause) or type(cause).__name__).lower()
    return "the connection broke"
