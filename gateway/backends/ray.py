"""The client of the models on a Ray cluster, through any of its ingress addresses. A row whose
replica, machine or link fails is retried elsewhere, within its deadline. Rows avoid an address
or a model that does not answer, until it answers again.
"""

import logging
import random
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from gevent.pool import Pool
from pydantic import TypeAdapter, ValidationError

from catalog import Model
from contract import rows
from contract.rows import prediction_path
from gateway.backends.backend import Capacity, KeptStates, ModelState, RowRequest
from gateway.backends.http_pool import (
    Channel,
    ConnectError,
    ConnectionClosed,
    HealthProbe,
    HttpReply,
    Option,
    ReadTimeout,
    Slots,
    describe,
)
from gateway.circuit_breaker import CircuitBreaker
from gateway.errors import (
    ClientGone,
    DeadlineExceeded,
    NotReady,
    Overloaded,
    Problem,
    RowProblem,
)

log = logging.getLogger(__name__)

#: The most replicas that may fail on one row: a row that crashes replicas must not crash all.
_ATTEMPTS = 3
#: The pause before the last attempt, and its maximum as a share of the time left. Meanwhile, a
#: machine that shuts down ends all its replicas, and an ingress notices which are gone.
_LAST_PAUSE_S, _LAST_PAUSE_SHARE = 1.0, 0.25
#: Older connections may lead to an HAProxy from before a reload, with its old list of replicas.
_FRESH_S = 1.0
#: The most models whose states are requested at the same time.
_LOOKS = 16

#: The rest of an unreachable address in seconds. Then one row tries it, while others avoid it.
_ADDRESS_REST_S = 5.0
#: A machine with a slow model acknowledges packets, and one behind a cut link does not. After
#: this time without acknowledgement, a connection is closed, even an idle one.
_CUT_S, _FIRST_PROBE_S, _PROBE_EVERY_S = 6, 3, 1
_OPTIONS: Sequence[Option] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _FIRST_PROBE_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_S),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _CUT_S * 1000),
)

#: A replica's answer about its state, in which `life` is its model's digest.
_STATES = TypeAdapter(ModelState)
#: Limits of requests for replicas' states: seconds for one, their number, seconds in total.
_LOOK_S, _MOST_LOOKS, _LOOKS_S = 2.0, 3, 5.0
#: The silence of a model after which a waiting row requests its state, and the pause before the
#: next such request.
_QUIET_S, _PAUSE_S = 2.0, 0.1
#: The least time of a row that may make such a request.
_PROBE_S = _QUIET_S + _LOOKS_S
#: Seconds for which a model's rows are refused at once if no replica has answered.
_MODEL_REST_S = 2.0
#: Seconds for which a replica counts after an answer.
_REMEMBERED_S = 10.0
#: The share of the time left that an attempt gets, unless the model usually needs more.
_SHARE = 0.5
#: The weight of the next answer in the averages, and the number of deviations that answers
#: rarely exceed, as in TCP's retransmission timer (RFC 6298).
_GAIN, _DEVIATIONS = 0.1, 4.0


class ReplicaFailed(Exception):
    """A replica has failed to answer the row; another may answer it."""


class NotServed(Exception):
    """An ingress has no application for the model."""


class GatewayKey:
    """The key by which replicas recognise the gateway; empty if there is none yet."""

    def __init__(self, file: Path) -> None:
        self._file, self.content = file, ""
        self.read_again("")

    def read_again(self, refused: str) -> bool:
        """Read the key again. Return whether it differs from the refused one."""
        try:
            self.content = self._file.read_text("utf-8").strip()
        except (OSError, ValueError):
            self.content = ""
        return self.content != refused


@dataclass(eq=False)
class Address:
    """An ingress address of the cluster."""

    channel: Channel
    key: GatewayKey
    breaker: CircuitBreaker = field(
        default_factory=lambda: CircuitBreaker(_ADDRESS_REST_S)
    )

    def call(
        self, method: str, path: str, headers: dict[str, str], **options: Any
    ) -> HttpReply:
        """Call as `Channel.call` does. If the key is refused and has changed, retry."""
        breaker, url = self.breaker, self.channel.url
        while True:
            key = self.key.content
            named = headers | {"Authorization": f"Bearer {key}"}
            try:
                reply = self.channel.call(method, path, named, **options)
            except ConnectError:
                if breaker.open():
                    log.warning("%s cannot be reached; using the others", url)
                raise
            if breaker.close():
                log.warning("%s can be reached again", url)
            if reply.status != HTTPStatus.UNAUTHORIZED or not self.key.read_again(key):
                return reply


class Addresses:
    """All ingress addresses of a cluster. Safe to share among greenlets."""

    def __init__(self, urls: Sequence[str], key: GatewayKey) -> None:
        self._all = [Address(Channel(url, _OPTIONS), key) for url in urls]

    def arrange(self) -> list[Address]:
        """Return the addresses in the order in which a row tries them: reachable ones in random
        order, then resting ones. One that has finished its rest comes first of all."""
        order = self.list_well_first()
        tried = next((each for each in order if each.breaker.let_one_try()), None)
        return sorted(order, key=lambda address: address is not tried)

    def list_well_first(self) -> list[Address]:
        """Return the same order for requests of states, which never test rested addresses."""
        shuffled = random.sample(self._all, len(self._all))
        return sorted(shuffled, key=lambda address: address.breaker.rests_until)


class AttemptTimeout:
    """The time limit of one attempt at a row, which leaves time for a second one.

    With 30 s left, an attempt gets 15 s. A model that usually takes 12 ± 2 s gets all 30 s: an
    answer after 15 s is not unusual, and a second attempt would only make it slower."""

    def __init__(self) -> None:
        self._mean_s = self._deviation_s = 0.0

    def learn(self, seconds: float) -> None:
        """Learn the duration of an answer, or of an attempt that was given up."""
        if not self._mean_s:
            self._mean_s, self._deviation_s = seconds, seconds / 2
            return
        error_s = seconds - self._mean_s
        self._mean_s += _GAIN * error_s
        self._deviation_s += _GAIN * (abs(error_s) - self._deviation_s)

    def limit(self, remaining_s: float) -> float:
        """Return how many of the remaining seconds an attempt may take."""
        usual_s = self._mean_s + _DEVIATIONS * self._deviation_s
        share_s = _SHARE * remaining_s
        return share_s if usual_s <= share_s else remaining_s


class ModelReplicas:
    """The replicas of one model, as far as known from their answers. Serve silently keeps a row
    of a model without replicas until one starts. Safe to share among greenlets."""

    def __init__(self, model: Model, addresses: Addresses) -> None:
        self.model = model
        self.timeout = AttemptTimeout()
        self._addresses = addresses
        self._breaker = CircuitBreaker(_MODEL_REST_S)
        self._states = KeptStates(self._ask_state)
        self._heard_at = 0.0
        given, workers = model.cluster.replicas, model.workers
        self._fewest, self._most = (workers, workers) if given == "auto" else given
        #: The time of each replica's last answer, if Ray adds and removes replicas.
        self._heard: dict[str, float] = {}

    @property
    def state(self) -> ModelState | None:
        """The state of a replica, at most a second old."""
        return self._states.find([self.model.name])[self.model.name]

    @property
    def capacity(self) -> Capacity:
        """The capacity of the replicas that answered in the last seconds, within the map's
        bounds. The model gets all the work they can use, which also makes Ray add replicas."""
        last = time.monotonic() - _REMEMBERED_S
        self._heard = {name: at for name, at in self._heard.items() if at > last}
        count = min(self._most, max(self._fewest, len(self._heard)))
        # Each has its own rows in memory.
        return Capacity(count, count * Capacity.most_bytes)

    def check(self, remaining_s: float) -> None:
        """Raise NotReady if no replica has answered. After each rest, one row may try, besides
        those with too little time for a probe: their failure would show nothing."""
        breaker = self._breaker
        is_try = remaining_s > _PROBE_S
        may_try = breaker.let_one_try() if is_try else not breaker.is_resting
        if breaker.rests_until and not may_try:
            raise _find_none(self.model.name)

    def hear(self) -> None:
        """Record that a replica has answered."""
        self._heard_at = time.monotonic()
        self._breaker.close()

    def count(self, replica: str | None) -> None:
        """Record that the replica with this name, if it sent one, is running."""
        if replica and self._fewest < self._most:
            self._heard[replica] = time.monotonic()

    def make_probe(self, remaining_s: float) -> HealthProbe | None:
        """Return the probe of a row that waits long; None if it has too little time left."""
        if remaining_s > _PROBE_S:
            return HealthProbe(_QUIET_S, self._check_silence)
        return None

    def _check_silence(self) -> None:
        """Raise NotReady if no replica answers any row during a second silence: requests for
        states may reach only replicas that have just ended."""
        until = time.monotonic() + _QUIET_S
        while self._is_silent:
            if (state := self.state) and state.is_ready:
                return
            is_over = time.monotonic() >= until or self._breaker.is_resting
            if self._is_silent and is_over:
                self._breaker.open()
                raise _find_none(self.model.name)
            time.sleep(_PAUSE_S)

    @property
    def _is_silent(self) -> bool:
        return time.monotonic() - self._heard_at >= _QUIET_S

    def _ask_state(self, names: Sequence[str]) -> dict[str, ModelState]:
        state = _find_state(self._addresses.list_well_first(), self.model)
        if state.is_ready:
            self.hear()
        return dict.fromkeys(names, state)


class RayBackend:
    """A `Backend` with the ingress addresses of one cluster."""

    def __init__(
        self,
        urls: Sequence[str],
        key_file: Path,
        models: Sequence[Model],
        *,
        connections: int,
    ) -> None:
        self._addresses = Addresses(urls, GatewayKey(key_file))
        self._slots = Slots(connections)
        self._replicas = {
            model.name: ModelReplicas(model, self._addresses) for model in models
        }

    def predict(
        self, model: str, row: RowRequest, *, deadline: float
    ) -> dict[str, Any]:
        """Try one address after another. An unreachable one is not tried again; after any other
        fault the next one is tried, and finally each once more. If no replica has answered,
        rows are refused at once."""
        replicas = self._replicas[model]
        replicas.check(deadline - time.monotonic())
        with self._slots.take(deadline):
            addresses = deque(self._addresses.arrange())
            left = _ATTEMPTS
            fault: Exception | None = None
            while addresses and left and time.monotonic() < deadline:
                if row.cancellation.is_cancelled:
                    break
                address = addresses.popleft()
                if fault:
                    address.channel.renew(_FRESH_S)
                try:
                    return _ask_replica(
                        address, replicas, row, deadline, is_last=left == 1
                    )
                except (ConnectError, NotServed) as error:
                    fault = error
                except ReadTimeout as error:  # much time is gone: try once more
                    fault = error
                    left = min(left - 1, 1)
                    addresses.append(address)
                except (ConnectionClosed, ReplicaFailed) as error:
                    fault = error
                    left -= 1
                    addresses.append(address)
                    _pause(left, deadline)
        raise _give_up(model, row, fault)

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return the state of a replica of each model, at most a second old."""
        asked = (self._replicas[model] for model in models)
        found = Pool(_LOOKS).map(lambda replicas: replicas.state, asked)
        return dict(zip(models, found, strict=True))

    def capacity(self, model: Model) -> Capacity:
        return self._replicas[model.name].capacity


def _ask_replica(
    address: Address,
    replicas: ModelReplicas,
    row: RowRequest,
    deadline: float,
    *,
    is_last: bool,
) -> dict[str, Any]:
    """Try once, and leave time for another attempt unless it `is_last`. Raises NotReady if
    there is no replica."""
    began = time.monotonic()
    remaining_s = max(0.0, deadline - began)
    limit_s = remaining_s if is_last else replicas.timeout.limit(remaining_s)
    model = replicas.model.name
    try:
        reply = address.call(
            "POST",
            prediction_path(model),
            {rows.REMAINING: str(int(limit_s * 1000)), **describe(row)},
            body=row.body,
            until=began + limit_s,
            cancellation=row.cancellation,
            probe=replicas.make_probe(remaining_s),
        )
        replicas.count(reply.headers.get(rows.REPLICA.lower()))
        answer = _read_reply(model, reply)
        replicas.hear()
    except ReadTimeout:
        replicas.timeout.learn(time.monotonic() - began)
        raise
    replicas.timeout.learn(time.monotonic() - began)
    if isinstance(answer, RowProblem):
        raise answer
    return answer


def _read_reply(model: str, reply: HttpReply) -> dict[str, Any] | RowProblem:
    """Return the handler's answer to the row. Raises an error if the reply contains none, or if
    the cause is the replica's own state."""
    if not reply.is_problem:
        match reply.status:
            case HTTPStatus.OK:
                return reply.read_json()  # type: ignore[no-any-return]
            case HTTPStatus.NOT_FOUND:
                raise NotServed(f"The cluster does not serve {model} yet.")
        # HAProxy answers 500 if a replica has closed the connection.
        raise ReplicaFailed(f"The replicas for {model} do not answer.")
    problem = RowProblem(reply.read_json())
    match reply.status, problem.slug:
        case HTTPStatus.UNAUTHORIZED, _:
            raise ReplicaFailed("The replicas do not accept the gateway's key.")
        case HTTPStatus.TOO_MANY_REQUESTS, slug:
            retry_after_s = float(reply.headers.get("retry-after", 1))
            refusal = Overloaded(problem.detail, retry_after_s=retry_after_s)
            # With more time, an attempt may find the model loaded again.
            raise ReadTimeout(refusal) if slug == "unloaded" else refusal
        case HTTPStatus.SERVICE_UNAVAILABLE, NotReady.slug:
            raise ReplicaFailed(problem.detail)
        case HTTPStatus.GATEWAY_TIMEOUT, DeadlineExceeded.slug:
            raise ReadTimeout(problem.detail)
    return problem


def _pause(left: int, deadline: float) -> None:
    if left == 1:
        most_s = _LAST_PAUSE_SHARE * (deadline - time.monotonic())
        time.sleep(min(_LAST_PAUSE_S, max(0.0, most_s)))


def _give_up(model: str, row: RowRequest, fault: Exception | None) -> Problem:
    """Return the problem of a row that has no answer."""
    if row.cancellation.is_cancelled:
        return ClientGone()
    match fault:
        case ReadTimeout(args=(Overloaded() as refusal,)):
            return refusal
        case None | ReadTimeout():
            return DeadlineExceeded("the model answered")
        case ReplicaFailed() | NotServed():
            return NotReady(str(fault))
        case ConnectionClosed():
            return _find_none(model)
    return NotReady("No ingress of the cluster can be reached.")


def _find_none(model: str) -> NotReady:
    return NotReady(f"The replicas for {model} do not answer.")


def _find_state(addresses: Sequence[Address], model: Model) -> ModelState:
    """Return the state of the first ready replica, or else why the last one asked is not ready.
    The first addresses are asked; if there are few, several times."""
    reason = ""
    last_at = time.monotonic() + _LOOKS_S - _LOOK_S
    for address in islice(cycle(addresses), _MOST_LOOKS):
        found = _ask_state(address, model)
        if isinstance(found, ModelState):
            return found
        reason = found
        if time.monotonic() > last_at:
            break
    return ModelState(False, model.settings.batch_size, queued_rows=0, reason=reason)


def _ask_state(address: Address, model: Model) -> ModelState | str:
    """Return the state of a ready replica, or the reason there is none."""
    path = prediction_path(model.name)
    until = time.monotonic() + _LOOK_S
    try:
        reply = address.call("GET", path, {}, until=until)
    except ReadTimeout:  # it has no replica to pass this to
        return "No replica answers."
    except (ConnectError, ConnectionClosed) as error:
        return f"{address.channel.url}: {error}"
    if reply.status == HTTPStatus.NOT_FOUND:
        return "The cluster does not serve this model."
    if reply.is_problem:
        return str(reply.read_json()["detail"])
    try:
        found = _STATES.validate_json(reply.body)
    except ValidationError:
        return f"No replica answers (status {reply.status})."
    return found if found.is_ready else found.reason or "The replica is not ready."
