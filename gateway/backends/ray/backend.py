"""The client of the models on a Ray cluster, through any of its ingress addresses. A row
whose replica, machine or link fails is asked again elsewhere, within its deadline.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import urllib3
from gevent.pool import Pool

from catalog import Model
from contract import rows
from contract.problems import CONTENT_TYPE
from contract.rows import prediction_path
from gateway.backends.backend import Capacity, ModelState, RowRequest
from gateway.backends.http_pool import (
    ConnectError,
    ConnectionClosed,
    ReadTimeout,
    Slots,
    describe,
)
from gateway.backends.ray.addresses import Address, Addresses, GatewayKey
from gateway.backends.ray.attempt_timeout import AttemptTimeout
from gateway.backends.ray.circuit_breaker import CircuitBreaker
from gateway.backends.ray.looking import look
from gateway.backends.ray.replica_counter import ReplicaCounter
from gateway.errors import (
    ClientGone,
    DeadlineExceeded,
    NotReady,
    Overloaded,
    Problem,
    RowProblem,
)

#: How often a row may reach a replica that then fails: one that ends its replicas must not
#: end them all.
_ATTEMPTS = 3
#: The pause before the last attempt, and its most as a share of the time left. In it a machine
#: that is ending takes down all its replicas, and an ingress notices which are gone.
_PAUSE_S, _PAUSE_SHARE = 1.0, 0.25
#: Older connections may lead to a process of HAProxy that a reload has left behind, with
#: its old list of replicas.
_FRESH_S = 1.0
#: Models whose state is asked for at the same time.
_LOOKS = 16


class ReplicaFailed(Exception):
    """A replica has not answered the row; another may."""


class NotServed(Exception):
    """An ingress knows no application for the model."""


@dataclass
class _Known:
    """A model of the map, and what its answers have taught."""

    model: Model
    crowd: ReplicaCounter
    presence: CircuitBreaker
    patience: AttemptTimeout = field(default_factory=AttemptTimeout)


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
        self._addresses = Addresses(
            urls, GatewayKey(key_file), connections=connections + _LOOKS
        )
        self._slots = Slots(connections)
        self._known = {
            model.name: _Known(
                model,
                ReplicaCounter(*_bound(model)),
                CircuitBreaker(model.name, partial(self._look, model)),
            )
            for model in models
        }

    def predict(
        self, model: str, row: RowRequest, *, deadline: float
    ) -> dict[str, Any]:
        """Try address after address. One that cannot be reached is not asked again; after
        any other fault the next one is, and each at last once more. Nobody waits for a
        model that has no replica."""
        known = self._known[model]
        known.presence.check()
        with self._slots.take(deadline):
            addresses = deque(self._addresses.arrange())
            left = _ATTEMPTS
            fault: Exception | None = None
            while addresses and left and _is_wanted(row, deadline):
                address = addresses.popleft()
                if fault:
                    address.channel.renew(_FRESH_S)
                try:
                    return _ask(address, known, row, deadline, is_last=left == 1)
                except (ConnectError, NotServed) as error:
                    fault = error
                except (
                    ReadTimeout
                ) as error:  # which has cost much time, and is borne once
                    fault, left = error, min(left - 1, 1)
                    addresses.append(address)
                except (ConnectionClosed, ReplicaFailed) as error:
                    fault, left = error, left - 1
                    addresses.append(address)
                    _pause(left, deadline)
        raise _give_up(model, row, fault)

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return the state of a replica of each model, at most a second old."""
        known = (self._known[model].presence for model in models)
        found = Pool(_LOOKS).map(lambda presence: presence.state, known)
        return dict(zip(models, found, strict=True))

    def capacity(self, model: Model) -> Capacity:
        """That of all replicas which are known to be there. Each holds its own rows."""
        replicas = self._known[model.name].crowd.count()
        return Capacity(replicas, replicas * Capacity.most_bytes)

    def _look(self, model: Model) -> ModelState:
        return look(self._addresses.list_well_first(), model)


def _ask(
    address: Address, known: _Known, row: RowRequest, deadline: float, *, is_last: bool
) -> dict[str, Any]:
    """One attempt, which leaves time for another unless it `is_last`. Raises NotReady where
    no replica is there."""
    began = time.monotonic()
    remaining_s = max(0.0, deadline - began)
    limit_s = remaining_s if is_last else known.patience.limit(remaining_s)
    headers = {rows.REMAINING: str(int(limit_s * 1000)), **describe(row)}
    path = prediction_path(known.model.name)
    try:
        response = address.call(
            "POST",
            path,
            headers,
            body=row.body,
            until=began + limit_s,
            call=row.call,
            doubt=known.presence.doubt(remaining_s),
        )
        if replica := response.headers.get(rows.REPLICA):
            known.crowd.hear(replica)
        answer = _read(known.model.name, response)
        known.presence.hear()
    except ReadTimeout:
        known.patience.learn(time.monotonic() - began)
        raise
    known.patience.learn(time.monotonic() - began)
    if isinstance(answer, RowProblem):
        raise answer
    return answer


def _read(
    model: str, response: urllib3.BaseHTTPResponse
) -> dict[str, Any] | RowProblem:
    """Return the handler's result for the row. Raises NotServed or ReplicaFailed when the
    reply says nothing about it."""
    if response.headers.get("Content-Type") == CONTENT_TYPE:
        return _judge(response)
    if response.status == HTTPStatus.OK:
        return response.json()  # type: ignore[no-any-return]
    if response.status == HTTPStatus.NOT_FOUND:
        raise NotServed(f"The cluster serves no model {model} yet.")
    # HAProxy says 500 where a replica has closed the connection.
    raise ReplicaFailed(f"The replicas for {model} do not answer.")


def _judge(response: urllib3.BaseHTTPResponse) -> RowProblem:
    """Return the problem of a row. Raises errors where the replica refuses for its own
    sake."""
    problem = RowProblem(response.json())
    match response.status, problem.slug:
        case HTTPStatus.UNAUTHORIZED, _:
            raise ReplicaFailed("The replicas do not take the gateway's key.")
        case HTTPStatus.TOO_MANY_REQUESTS, _:
            retry_after_s = float(response.headers.get("Retry-After", 1))
            raise Overloaded(problem.detail, retry_after_s=retry_after_s)
        case HTTPStatus.SERVICE_UNAVAILABLE, NotReady.slug:
            raise ReplicaFailed(problem.detail)
        case HTTPStatus.GATEWAY_TIMEOUT, DeadlineExceeded.slug:
            raise ReadTimeout(problem.detail)
    return problem


def _pause(left: int, deadline: float) -> None:
    if left == 1:
        remaining_s = max(0.0, deadline - time.monotonic())
        time.sleep(min(_PAUSE_S, _PAUSE_SHARE * remaining_s))


def _is_wanted(row: RowRequest, deadline: float) -> bool:
    return deadline > time.monotonic() and not row.call.is_given_up


def _give_up(model: str, row: RowRequest, fault: Exception | None) -> Problem:
    """Why a row has no answer."""
    if row.call.is_given_up:
        return ClientGone("The client has closed the connection.")
    match fault:
        case None | ReadTimeout():
            return DeadlineExceeded("The deadline passed before the model answered.")
        case ReplicaFailed() | NotServed():
            return NotReady(str(fault))
        case ConnectionClosed():
            return NotReady(f"The replicas for {model} do not answer.")
    return NotReady("No ingress of the cluster can be reached.")


def _bound(model: Model) -> tuple[int, int]:
    """The fewest and the most replicas."""
    replicas = model.cluster.replicas
    return (model.workers,) * 2 if replicas == "auto" else replicas
