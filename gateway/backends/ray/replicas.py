"""Knows one model's replicas: whether there are any, how many, and how long they take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus
from itertools import cycle, islice

from pydantic import BaseModel, ValidationError

from catalog import Model
from contract.rows import prediction_path
from gateway.backends.backend import Capacity, KeptStates, ModelState
from gateway.backends.http_pool import (
    ConnectError,
    ConnectionClosed,
    HealthProbe,
    HttpReply,
    ReadTimeout,
)
from gateway.backends.ray.addresses import Address, Addresses
from gateway.backends.ray.circuit_breaker import CircuitBreaker
from gateway.errors import NotReady

#: Limits of asking replicas for their state: for one answer, between two, and in all.
_LOOK_S = 2.0
_MOST_LOOKS = 3
_LOOKS_S = 5.0
#: The silence of a model after which a waiting row asks for its state, and the pause
#: before it asks again.
_QUIET_S = 2.0
_PAUSE_S = 0.1
#: The time for which its rows are refused at once if nobody has answered.
_REST_S = 2.0
#: The time for which a replica counts after an answer, and for which a count is good.
_REMEMBERED_S = 10.0
_COUNTED_S = 0.2
#: The share of the time left that an attempt gets, unless the model usually needs more.
_SHARE = 0.5
#: The weight of the next answer in the averages, and how many deviations hardly any answer
#: exceeds: as TCP judges when to send again (RFC 6298).
_GAIN = 0.1
_DEVIATIONS = 4.0


class AttemptTimeout:
    """The time limit of one attempt at a row, which leaves time for a second one.

    With 30 s left an attempt gets 15 s. A model that usually takes 12 ± 2 s gets all 30 s,
    because an answer after 15 s is nothing unusual, and asking twice would only make it
    slower.
    """

    def __init__(self) -> None:
        self._mean_s = self._deviation_s = 0.0

    def learn(self, seconds: float) -> None:
        """Learn from an answer, or from an attempt that was given up after so long."""
        if not self._mean_s:
            self._mean_s, self._deviation_s = seconds, seconds / 2
            return
        error_s = seconds - self._mean_s
        self._mean_s += _GAIN * error_s
        self._deviation_s += _GAIN * (abs(error_s) - self._deviation_s)

    def limit(self, remaining_s: float) -> float:
        """The seconds that an attempt may take of those that remain."""
        usual_s = self._mean_s + _DEVIATIONS * self._deviation_s
        share_s = _SHARE * remaining_s
        return share_s if usual_s <= share_s else remaining_s


class ModelReplicas:
    """The replicas of one model, by what they have answered. Serve keeps a row of a model
    without any until one comes, and says nothing in the meantime. Safe to share among
    greenlets."""

    def __init__(self, model: Model, addresses: Addresses) -> None:
        self.model = model
        self.timeout = AttemptTimeout()
        self._addresses = addresses
        self._breaker = CircuitBreaker(_REST_S)
        self._states = KeptStates(self._ask_state)
        self._heard_at = 0.0
        replicas = model.cluster.replicas
        self._fewest, self._most = (
            (model.workers, model.workers) if replicas == "auto" else replicas
        )
        #: The time of each one's last answer, where Ray adds and removes them by
        #: itself.
        self._heard: dict[str, float] = {}
        self._count, self._counted_at = self._fewest, 0.0

    @property
    def state(self) -> ModelState | None:
        """A replica's state, at most a second old."""
        return self._states.find([self.model.name])[self.model.name]

    @property
    def capacity(self) -> Capacity:
        """The capacity of those that have answered in the last seconds, within the map's
        bounds. So a model gets at once what its replicas can use, and with it the work for
        which Ray adds others."""
        now = time.monotonic()
        if now > self._counted_at + _COUNTED_S:
            last = now - _REMEMBERED_S
            self._heard = {name: at for name, at in self._heard.items() if at > last}
            self._count = min(self._most, max(self._fewest, len(self._heard)))
            self._counted_at = now
        # Each holds its own rows.
        return Capacity(self._count, self._count * Capacity.most_bytes)

    def check(self) -> None:
        """Raise NotReady where no replica has answered. One row tries now and then."""
        if self._breaker.is_open and not self._breaker.let_one_try():
            raise self._refuse()

    def hear(self) -> None:
        """Note that one has answered."""
        self._heard_at = time.monotonic()
        self._breaker.close()

    def count(self, replica: str) -> None:
        """Note that the replica of this name is there."""
        if self._fewest < self._most:
            self._heard[replica] = time.monotonic()

    def make_probe(self, remaining_s: float) -> HealthProbe | None:
        """The question of a row that waits for long; none if it has too little time left."""
        if remaining_s > _QUIET_S + _LOOKS_S:
            return HealthProbe(_QUIET_S, self._check_silence)
        return None

    def _check_silence(self) -> None:
        """Raise NotReady if no replica has answered anybody by the end of a second silence:
        where some have just ended, looks may meet those alone."""
        until = time.monotonic() + _QUIET_S
        while self._is_silent:
            state = self.state
            if state and state.is_ready:
                return
            is_over = time.monotonic() >= until or self._breaker.is_resting
            if self._is_silent and is_over:
                self._breaker.open()
                raise self._refuse()
            time.sleep(_PAUSE_S)

    @property
    def _is_silent(self) -> bool:
        return time.monotonic() - self._heard_at >= _QUIET_S

    def _ask_state(self, names: Sequence[str]) -> dict[str, ModelState]:
        state = _find_state(self._addresses.list_well_first(), self.model)
        if state.is_ready:
            self.hear()
        return dict.fromkeys(names, state)

    def _refuse(self) -> NotReady:
        return NotReady(f"The replicas for {self.model.name} do not answer.")


class _State(BaseModel):
    """A replica's answer about itself."""

    is_ready: bool
    batch_size: int
    queued_rows: int
    #: The reason why it is not ready.
    detail: str = ""


def _find_state(addresses: Sequence[Address], model: Model) -> ModelState:
    """The state of the first replica that is ready; else why the last one asked is not. The
    first addresses are asked, one of a few even several times."""
    reason = ""
    give_up_at = time.monotonic() + _LOOKS_S
    for address in islice(cycle(addresses), _MOST_LOOKS):
        found = _ask(address, model)
        if isinstance(found, ModelState):
            return found
        reason = found
        if time.monotonic() > give_up_at - _LOOK_S:
            break
    return ModelState(False, model.settings.batch_size, queued_rows=0, reason=reason)


def _ask(address: Address, model: Model) -> ModelState | str:
    """The state of a replica that is ready, or why there is none."""
    path, until = prediction_path(model.name), time.monotonic() + _LOOK_S
    try:
        return _read(address.call("GET", path, {}, until=until))
    except ReadTimeout:  # it has none to pass this on to
        return "No replica answers."
    except (ConnectError, ConnectionClosed) as error:
        return f"{address.channel.url}: {error}"


def _read(reply: HttpReply) -> ModelState | str:
    if reply.status == HTTPStatus.NOT_FOUND:
        return "The cluster serves no such model."
    if reply.is_problem:
        return str(reply.read_json()["detail"])
    try:
        found = _State.model_validate_json(reply.body)
    except ValidationError:
        return f"No replica answers (status {reply.status})."
    if not found.is_ready:
        return found.detail or "The replica is not ready."
    return ModelState(True, found.batch_size, found.queued_rows)
