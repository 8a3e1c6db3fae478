"""The client of TorchServe's inference API. Every failure of a prediction becomes a problem
that a client understands.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gevent import Timeout

from catalog import Model
from contract import rows
from gateway.backends.backend import Backend, KeptStates, ModelState, RowRequest
from gateway.backends.http_pool import (
    Channel,
    ConnectError,
    ConnectionClosed,
    HttpReply,
    ReadTimeout,
    Slots,
    describe,
)
from gateway.errors import DeadlineExceeded, NotReady, Overloaded, RowProblem
from gateway.http.request import Deadline
from torchserve_backend.management import Management, ManagementError, read_key

_ATTEMPTS = 2
#: Seconds between two checks of a model that is being loaded, and until the first load is
#: measured, its assumed duration: a worker starts Python and imports libraries.
_LOOK_S, _LOAD_S = 0.1, 1.0


class WorkerDied(Exception):
    """A worker ended during our request; another may answer it."""


class KeyRejected(WorkerDied):
    """TorchServe has new keys: it was restarted, and its workers with it."""


class ModelUnloaded(WorkerDied):
    """The model was unloaded because it was unused, or is being loaded again."""


class TorchServeBackend(Backend):
    """A `Backend` with one TorchServe."""

    def __init__(
        self,
        inference_url: str,
        management: Management,
        key_file: Path,
        models: Sequence[Model] = (),
        *,
        connections: int,
    ) -> None:
        self._channel = Channel(inference_url)
        self._slots = Slots(connections)
        self._management = management
        self._key_file = key_file
        self._key = ""
        self._states = KeptStates(self._describe_models)
        self._models = {model.name: model for model in models}
        self._loading = KeptStates(self._load_models, _LOOK_S)
        #: Seconds that each model last took to be loaded, and when its latest load should end.
        self._load_s: dict[str, float] = {}
        self._done_at: dict[str, float] = {}

    def predict(
        self, model: str, row: RowRequest, *, deadline: float
    ) -> dict[str, Any]:
        """Return the answer as any backend does; load an unloaded model first."""
        with self._slots.take(deadline):
            try:
                return self._ask(model, row, deadline)
            except DeadlineExceeded as error:
                if self._is_idling(model) and _is_away(self._look(model, deadline)):
                    raise _refuse_unloaded(model) from error
                raise

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return TorchServe's state of each model, at most a second old; None if it is not
        registered or TorchServe does not answer."""
        return self._states.find(models)

    def unload(self, model: Model, is_unused: Callable[[], bool]) -> None:
        """Unload a model whose workers are ready, and load it again if it is used meanwhile:
        TorchServe keeps rows that wait for a worker."""
        with suppress(ManagementError):
            found = self._management.describe(model.name)
            if found and found.is_ready and found.min_workers:
                self._management.scale(model.name, 0)
                if not is_unused():
                    self._management.scale(model.name, model.workers)

    def _is_idling(self, model: str) -> bool:
        """Whether a model is unloaded when it is unused."""
        known = self._models.get(model)
        return bool(known and known.settings.idle_unload_s)

    def _load_models(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return the models' states, and have unloaded ones loaded. Repeating it is safe."""
        states = self._describe_models(models)
        with suppress(ManagementError):
            for name, state in states.items():
                if state and state.is_unloaded:
                    self._management.scale(name, self._models[name].workers)
        return states

    def _look(self, model: str, deadline: float) -> ModelState | None:
        """Return the state of a model, and have it loaded if it is unloaded. None if TorchServe
        does not answer in time."""
        states = self._loading if self._is_idling(model) else self._states
        with Timeout(max(0.0, deadline - time.monotonic()) + _LOOK_S, False):
            return states.find([model])[model]
        return None

    def _wait_for_model(self, name: str, row: RowRequest, deadline: float) -> None:
        """Wait until an unloaded model is loaded. Raises Overloaded if that takes too long, and
        NotReady if TorchServe does not answer."""
        began, is_first = time.monotonic(), False
        while state := self._look(name, deadline):
            now = time.monotonic()
            if state.is_unloaded:  # the look has begun to load it
                is_first = True
                self._done_at[name] = began + self._load_s.get(name, _LOAD_S)
            elif state.is_ready:
                row.cancellation.loading_s = now - began
                if is_first:
                    self._load_s[name] = now - began
                return
            done_at = self._done_at.get(name, now)
            if max(now + _LOOK_S, done_at) > deadline:
                raise _refuse_unloaded(name, done_at - now)
            time.sleep(_LOOK_S)
        raise NotReady("TorchServe does not answer.")

    def _describe_models(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return the models' states, None after the first timeout: each takes seconds."""
        states: dict[str, ModelState | None] = dict.fromkeys(models)
        with suppress(ManagementError):
            for name in models:
                if found := self._management.describe(name):
                    model = self._models.get(name)
                    is_unloaded = bool(model and found.is_unloaded(model))
                    is_ready = found.is_ready or is_unloaded
                    states[name] = ModelState(
                        is_ready,
                        found.batch_size,
                        found.pending_requests,
                        life=found.life,
                        is_unloaded=is_unloaded,
                    )
        return states

    def _ask(self, model: str, row: RowRequest, deadline: float) -> dict[str, Any]:
        """Try twice, which does no harm. A connection on which a worker died is not reused."""
        for _ in range(_ATTEMPTS):
            with suppress(WorkerDied):
                return self._post_with_key(model, row, deadline)
        raise NotReady(f"The worker for {model} died or is being restarted.")

    def _post_with_key(
        self, model: str, row: RowRequest, deadline: float
    ) -> dict[str, Any]:
        """Try; if the key was rejected, read it again, or load an unloaded model, and retry."""
        try:
            return self._post(model, row, deadline)
        except KeyRejected:
            self._key = read_key(self._key_file, "inference")
        except ModelUnloaded:
            self._wait_for_model(model, row, deadline)
        return self._post(model, row, deadline)

    def _post(self, model: str, row: RowRequest, deadline: float) -> dict[str, Any]:
        Deadline(deadline).check("the model was asked")
        headers = {"Authorization": f"Bearer {self._key}", **describe(row)}
        headers[rows.DEADLINE] = str(int(deadline * 1000))
        headers[rows.SENT] = str(int(time.monotonic() * 1000))
        if (number := row.cancellation.number) is not None:
            headers[rows.NUMBER] = str(number)
        path = rows.prediction_path(model)
        try:
            reply = self._channel.call(
                "POST", path, headers, body=row.body, until=deadline
            )
        except ConnectError as error:
            raise NotReady("TorchServe does not accept connections.") from error
        except ReadTimeout as error:
            raise DeadlineExceeded("the model answered") from error
        except ConnectionClosed as error:
            raise WorkerDied from error
        return self._read_reply(model, reply, deadline)

    def _read_reply(
        self, model: str, reply: HttpReply, deadline: float
    ) -> dict[str, Any]:
        if reply.status == HTTPStatus.OK:
            return reply.read_json()  # type: ignore[no-any-return]
        if reply.is_problem:
            raise RowProblem(reply.read_json())
        is_refused = reply.status == HTTPStatus.BAD_REQUEST
        if is_refused and b"InvalidKeyException" in reply.body:
            raise KeyRejected
        if b"ServiceUnavailableException" in reply.body:
            # TorchServe's answer is the same for a full queue and for a model without workers.
            state = self._look(model, deadline)
            if self._is_idling(model) and _is_away(state):
                raise ModelUnloaded
            if state and state.is_ready:
                raise Overloaded(f"The queue for {model} is full.")
            raise NotReady(f"The model for {model} has no worker yet.")
        if reply.status == HTTPStatus.NOT_FOUND:
            raise NotReady(f"The model for {model} is not registered yet.")
        raise WorkerDied


def _is_away(state: ModelState | None) -> bool:
    """Whether a model cannot answer now because it is unloaded or being loaded."""
    return bool(state and (state.is_unloaded or not state.is_ready))


def _refuse_unloaded(model: str, wait_s: float = 0.0) -> Overloaded:
    """Return the refusal of a row whose time ends before its model is loaded again."""
    said = f"The model for {model} was unloaded and is being loaded."
    return Overloaded(said, retry_after_s=max(_LOAD_S, wait_s))
