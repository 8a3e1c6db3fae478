"""One model behind HTTP: an ASGI application that answers rows in batches, as a worker of
TorchServe does. It does not depend on Ray.
"""

import asyncio
import hashlib
import hmac
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from catalog import Model, checkpoint, describe_handler
from catalog.sections import Section
from contract import rows
from handlers.base import (
    LoadError,
    ReloadableHandler,
    Result,
    Row,
    TaskError,
    TaskHandler,
    explain_load,
    start_handler,
    write_answer,
)
from handlers.microbatcher import MicroBatcher, QueueFull, Refused
from ray_backend.config import Arguments

log = logging.getLogger(__name__)

_PATHS = ("", "/")
_STOPPING = "This replica is being stopped."
#: The longest wait of `close`.
_DRAIN_S = 30.0
#: The headers of a refusal.
_HEADERS = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": "GET, POST"},
}


class Stuck(RuntimeError):
    """A batch takes longer than the map allows: this process must be replaced."""


def load_handler(model: Model, cache: Path) -> TaskHandler[Any]:
    """Prepare a model, one at a time on this machine, and load it. Raises LoadError."""
    with explain_load(model.name):
        cache.mkdir(parents=True, exist_ok=True)
        # The lock is released when its process ends.
        with WeakFileLock(cache / "preparing.lock"):
            directory = checkpoint.prepare(model, cache)
        # Ray lets this process see only its own GPU.
        gpu = 0 if model.is_on_gpu else None
        options = describe_handler(model, directory)
        return start_handler(model.task, directory, gpu, options)


class Replica:
    """The ASGI application: POST answers a row, GET returns the state; both require the key.
    `count` is called with the counts of every batch, in the thread that ran it."""

    def __init__(
        self,
        arguments: Arguments,
        handler: ReloadableHandler,
        count: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._settings: Section = arguments.model.settings
        self._key_digest = arguments.key_digest
        self._handler = handler
        self._count = count
        self._id = secrets.token_hex(8)
        self._is_closed = False
        #: The start of the running batch.
        self._began_at = math.inf
        self._batcher: MicroBatcher[Row, Result] = MicroBatcher(
            self._run_batch,
            batch_size=self._settings.batch_size,
            wait_s=self._settings.max_batch_delay / 1000,
            queue_size=self._settings.queue_size,
            idle_s=self._settings.idle_unload_s or None,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await receive()
                await send({"type": "lifespan.startup.complete"})
                await receive()
                await asyncio.to_thread(self.close)
                await send({"type": "lifespan.shutdown.complete"})
            case "http":
                result = await self._answer_row(Request(scope, receive))
                status, content_type, body = write_answer(result)
                headers = {rows.REPLICA: self._id, "Content-Type": content_type}
                headers |= _HEADERS.get(HTTPStatus(status), {})
                if status == HTTPStatus.TOO_MANY_REQUESTS:
                    left_s = math.ceil(self._handler.load_left_s)
                    headers["Retry-After"] = str(max(1, left_s))
                await Response(body, status, headers)(scope, receive, send)
            case _:
                await send({"type": "websocket.close"})

    def check_health(self) -> None:
        """Raise Stuck if a batch takes longer than the map's `response_timeout`."""
        if fault := self._find_fault():
            raise Stuck(fault)

    def close(self) -> None:
        """Accept no more rows, and wait for the accepted ones unless the batch is stuck."""
        self._is_closed = True
        self._batcher.close(0 if self._find_fault() else _DRAIN_S)

    async def _answer_row(self, request: Request) -> Result:
        """Answer a row. An error is the row's result; no text of its user is logged."""
        try:
            self._check_key(request.headers)
            # The application is mounted at the model's path.
            place = request.scope.get("root_path", "")
            if request.scope["path"].removeprefix(place) not in _PATHS:
                raise TaskError("not-found", "No such path.")
            if request.method == "GET":
                return self._describe_state()
            if request.method == "POST":
                return await self._predict(request)
            detail = f"expected GET or POST, found {request.method}"
            raise TaskError("method-not-allowed", detail)
        except TaskError as refusal:
            return refusal
        except Exception as error:
            log.error("answering a row failed with %s", type(error).__name__)
            return TaskError("internal", "The row failed.")

    def _check_key(self, headers: Mapping[str, str]) -> None:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(key.encode("latin-1")).hexdigest()
        is_known = hmac.compare_digest(digest, self._key_digest)
        if scheme.lower() != "bearer" or not is_known:
            expected = "expected the cluster's key as Authorization: Bearer KEY"
            raise TaskError("invalid-key", expected)

    def _find_fault(self) -> str:
        """Return the reason to replace this process, a batch that is stuck; else nothing."""
        # A batch begins once its model is loaded, which may take longer.
        back_at = math.inf if self._handler.load_left_s else self._handler.back_at
        batch_s = time.monotonic() - max(back_at, self._began_at)
        limit_s = self._settings.response_timeout
        is_stuck = batch_s > limit_s
        return f"A batch has run for longer than {limit_s} s." if is_stuck else ""

    def _describe_state(self) -> dict[str, Any]:
        """Return the fields of the gateway's `ModelState`."""
        reason = self._find_fault() or (_STOPPING if self._is_closed else "")
        return {
            "is_ready": not reason,
            "batch_size": self._settings.batch_size,
            "queued_rows": self._batcher.waiting,
            "reason": reason,
            "life": self._handler.digest,
        }

    async def _predict(self, request: Request) -> Result:
        came_at = time.monotonic()
        limit_s = _read_limit(request.headers, self._settings.response_timeout)
        parameters = dict(parse_qsl(request.headers.get(rows.PARAMETERS, "")))
        try:
            async with asyncio.timeout(limit_s):
                body = await request.body()  # which the gateway has bounded
                trace = request.headers.get(rows.TRACE, "")
                row = Row(body, parameters, came_at + limit_s, came_at, trace=trace)
                # The timeout acts at the next await, when a batch may already have the row.
                if row.deadline <= time.monotonic():
                    raise TimeoutError
                future = self._batcher.submit(row)
                if self._handler.load_left_s > limit_s:
                    raise TimeoutError  # the row stays queued, to have the model loaded
                # Ray cancels this call, and with it the row, if the client disconnects.
                return await asyncio.wrap_future(future)
        except ClientDisconnect:
            said = "the connection was closed before the end of the body"
            return TaskError("malformed-request", said)
        except TimeoutError:
            if self._handler.load_left_s:
                return TaskError("unloaded", "The model is being loaded again.")
            said = "The deadline passed before the model answered."
            return TaskError("deadline", said)
        except QueueFull:
            said = f"{self._settings.queue_size} rows are already waiting"
            return TaskError("queue-full", said)
        except (Refused, LoadError):
            said = _STOPPING if self._is_closed else "The model cannot be loaded."
            return TaskError("not-ready", said)

    def _run_batch(self, batch: Sequence[Row]) -> list[Result]:
        self._began_at = time.monotonic()
        try:
            outcome = self._handler.answer(batch)
        finally:
            self._began_at = math.inf
        self._count(outcome.counts)
        return outcome.results


def _read_limit(headers: Mapping[str, str], default_s: float) -> float:
    """Read the seconds left for a row; without the header, the longest time of a batch."""
    try:
        return int(headers.get(rows.REMAINING, 1000 * default_s)) / 1000
    except (ValueError, OverflowError) as error:
        expected = f"{rows.REMAINING}: expected a number of milliseconds"
        raise TaskError("malformed-request", expected) from error
