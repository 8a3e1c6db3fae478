"""The client of TorchServe's inference API. Every way in which a prediction can fail
becomes a problem that a client understands.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

import urllib3
from urllib3.util import SKIP_HEADER

from contract import rows
from contract.problems import CONTENT_TYPE
from gateway.errors import DeadlineExceeded, NotReady, Overloaded, RowProblem
from gateway.transport.sending import is_readable
from torchserve_backend.management import (
    Management,
    ManagementError,
    prediction_path,
    read_key,
)

_ATTEMPTS = 2
_CONNECT_S = 2.0
#: How long a look at TorchServe's models is good for.
_STATES_S = 1.0
#: TorchServe hands every header to the worker, which reads its parts one by one.
_NO_HEADERS = {"User-Agent": SKIP_HEADER, "Accept-Encoding": SKIP_HEADER}


class WorkerDied(Exception):
    """A worker ended while it had our request; another may answer."""


class KeyRejected(WorkerDied):
    """TorchServe has new keys: it was restarted, and its workers with it."""


@dataclass(frozen=True)
class Row:
    """What a handler is asked: a body, and parameters beside it."""

    body: bytes
    content_type: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: Where the worker sees whether somebody still waits for the answer.
    number: int | None = None


def write_row(content: Mapping[str, Any]) -> Row:
    """A row that is a JSON object."""
    return Row(json.dumps(content).encode(), "application/json")


@dataclass(frozen=True)
class ModelState:
    """What a backend says of a model that it has."""

    #: Whether somebody answers for it.
    is_ready: bool
    batch_size: int
    #: Rows that wait in the backend, behind the gateway's own queue.
    queued_rows: int


class Backend(Protocol):
    """Where rows are answered; safe to share among greenlets."""

    def predict(self, model: str, row: Row, *, deadline: float) -> dict[str, Any]:
        """The handler's answer to `row`; `deadline` is in seconds of
        this machine's monotonic clock, which no correction of the time moves.

        Raises Overloaded, NotReady, DeadlineExceeded or RowProblem.
        """

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """What is known of each model; None for one that cannot be asked."""


class TorchServeBackend:
    """A pool of keep-alive connections to one TorchServe, safe to share among greenlets."""

    def __init__(
        self,
        inference_url: str,
        management: Management,
        key_file: Path,
        *,
        connections: int,
    ) -> None:
        # What requests stands on: requests' own part was a fifth of the gateway's CPU.
        self._pool = urllib3.connection_from_url(inference_url, maxsize=connections)
        self._pool.ConnectionCls = _Connection
        self._management = management
        self._key_file = key_file
        self._key = ""
        self._free = threading.BoundedSemaphore(connections)
        self._states: dict[str, tuple[float, ModelState | None]] = {}
        self._looking = threading.Lock()

    def predict(self, model: str, row: Row, *, deadline: float) -> dict[str, Any]:
        """As `Backend.predict`."""
        if not self._free.acquire(timeout=_remaining(deadline)):
            raise DeadlineExceeded(
                "The deadline passed while waiting for a connection."
            )
        try:
            return self._predict(model, row, deadline)
        finally:
            self._free.release()

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """What TorchServe says of each model, at most a second old; None for one that is
        not registered or when TorchServe does not answer."""
        with self._looking:  # one looks, all others use what it has seen
            now = time.monotonic()
            old = [name for name in models if self._states.get(name, (0.0,))[0] < now]
            seen = self._describe(old)
            until = time.monotonic() + _STATES_S
            self._states |= {name: (until, state) for name, state in seen.items()}
            return {name: self._states[name][1] for name in models}

    def _describe(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Asks no further once TorchServe has not answered: each time-out is seconds."""
        states: dict[str, ModelState | None] = dict.fromkeys(models)
        with suppress(ManagementError):
            for name in models:
                found = self._management.describe(name)
                if found:
                    states[name] = ModelState(
                        found.is_ready, found.batch_size, found.pending_requests
                    )
        return states

    def _predict(self, model: str, row: Row, deadline: float) -> dict[str, Any]:
        """Two attempts: asking twice does no harm. A connection on which a worker
        died is not used again."""
        for _ in range(_ATTEMPTS):
            with suppress(WorkerDied):
                return self._post_with_key(model, row, deadline)
        raise NotReady(f"The worker for {model} died or is being restarted.")

    def _post_with_key(self, model: str, row: Row, deadline: float) -> dict[str, Any]:
        """One attempt; a rejected key is read again first."""
        try:
            return self._post(model, row, deadline)
        except KeyRejected:
            self._key = read_key(self._key_file, "inference")
            return self._post(model, row, deadline)

    def _post(self, model: str, row: Row, deadline: float) -> dict[str, Any]:
        remaining = _remaining(deadline)
        headers = {
            "Authorization": f"Bearer {self._key}",
            "Content-Type": row.content_type,
            rows.DEADLINE: str(int(deadline * 1000)),
            rows.SENT: str(int(time.monotonic() * 1000)),
            **_NO_HEADERS,
        }
        if row.number is not None:
            headers[rows.NUMBER] = str(row.number)
        if row.parameters:
            headers[rows.PARAMETERS] = urlencode(row.parameters)
        try:
            response = self._pool.urlopen(
                "POST",
                prediction_path(model),
                body=row.body,
                headers=headers,
                retries=False,
                timeout=urllib3.Timeout(
                    connect=min(_CONNECT_S, remaining), read=remaining
                ),
            )
        except urllib3.exceptions.ConnectTimeoutError as error:
            raise NotReady("TorchServe does not accept connections.") from error
        except urllib3.exceptions.TimeoutError as error:
            raise DeadlineExceeded(
                "The deadline passed before the model answered."
            ) from error
        except urllib3.exceptions.HTTPError as error:  # closed, also in mid-answer
            raise WorkerDied from error
        return self._read(model, response)

    def _read(self, model: str, response: urllib3.BaseHTTPResponse) -> dict[str, Any]:
        if response.status == HTTPStatus.OK:
            return response.json()  # type: ignore[no-any-return]
        if response.headers.get("Content-Type") == CONTENT_TYPE:
            raise RowProblem(response.json())
        is_bad = response.status == HTTPStatus.BAD_REQUEST
        if is_bad and b"InvalidKeyException" in response.data:
            raise KeyRejected
        if b"ServiceUnavailableException" in response.data:
            # TorchServe says the same of a full queue and of a model without workers.
            state = self.states([model])[model]
            if state and state.is_ready:
                raise Overloaded(f"The queue for {model} is full.")
            raise NotReady(f"The model for {model} has no worker yet.")
        if response.status == HTTPStatus.NOT_FOUND:
            raise NotReady(f"The model for {model} is not registered yet.")
        raise WorkerDied


class _Connection(urllib3.connection.HTTPConnection):
    """urllib3 asks gevent's `poll` whether an idle connection is still open, which costs
    more than all the rest of a request."""

    @property
    def is_connected(self) -> bool:
        """Whether a request can be sent by it."""
        return self.sock is not None and not is_readable(self.sock)


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise DeadlineExceeded("The deadline passed before the model was asked.")
    return remaining
