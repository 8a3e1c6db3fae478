"""The client of the models on a Ray cluster, through any of its ingress addresses. A row
whose replica, machine or link fails is asked again elsewhere, within its deadline.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gevent.pool import Pool

from catalog import Model
from contract import rows
from contract.rows import prediction_path
from gateway.backends.backend import Capacity, ModelState, RowRequest
from gateway.backends.http_pool import (
    ConnectError,
    ConnectionClosed,
    HttpReply,
    ReadTimeout,
    Slots,
    describe,
)
from gateway.backends.ray.addresses import Address, Addresses, GatewayKey
from gateway.backends.ray.replicas import ModelReplicas
from gateway.errors import (
    ClientGone,
    DeadlineExceeded,
    NotReady,
    Overloaded,
    Problem,
    RowProblem,
)

#: The number of times that a row may reach a replica that then fails: one that ends its
#: replicas must not end them all.
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
        self._replicas = {
            model.name: ModelReplicas(model, self._addresses) for model in models
        }

    def predict(
        self, model: str, row: RowRequest, *, deadline: float
    ) -> dict[str, Any]:
        """Try address after address. One that cannot be reached is not asked again; after
        any other fault the next one is, and each at last once more. Nobody waits for a
        model that has no replica."""
        replicas = self._replicas[model]
        replicas.check()
        with self._slots.take(deadline):
            addresses = deque(self._addresses.arrange())
            left = _ATTEMPTS
            fault: Exception | None = None
            while addresses and left and _is_wanted(row, deadline):
                address = addresses.popleft()
                if fault:
                    address.channel.renew(_FRESH_S)
                try:
                    return _ask(address, replicas, row, deadline, is_last=left == 1)
                except (ConnectError, NotServed) as error:
                    fault = error
                except ReadTimeout as error:  # after much time: there is one more try
                    fault, left = error, min(left - 1, 1)
                    addresses.append(address)
                except (ConnectionClosed, ReplicaFailed) as error:
                    fault, left = error, left - 1
                    addresses.append(address)
                    _pause(left, deadline)
        raise _give_up(model, row, fault)

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        """Return the state of a replica of each model, at most a second old."""
        asked = (self._replicas[model] for model in models)
        found = Pool(_LOOKS).map(lambda replicas: replicas.state, asked)
        return dict(zip(models, found, strict=True))

    def capacity(self, model: Model) -> Capacity:
        """That of all replicas which are known to be there."""
        return self._replicas[model.name].capacity


def _ask(
    address: Address,
    replicas: ModelReplicas,
    row: RowRequest,
    deadline: float,
    *,
    is_last: bool,
) -> dict[str, Any]:
    """Try once, and leave time for another attempt unless it `is_last`. Raises NotReady where
    no replica is there."""
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
        if replica := reply.headers.get(rows.REPLICA.lower()):
            replicas.count(replica)
        answer = _read(model, reply)
        replicas.hear()
    except ReadTimeout:
        replicas.timeout.learn(time.monotonic() - began)
        raise
    replicas.timeout.learn(time.monotonic() - began)
    if isinstance(answer, RowProblem):
        raise answer
    return answer


def _read(model: str, reply: HttpReply) -> dict[str, Any] | RowProblem:
    """The handler's answer to the row. Raises an error if the reply says nothing about it."""
    if reply.is_problem:
        return _judge(reply)
    if reply.status == HTTPStatus.OK:
        return reply.read_json()  # type: ignore[no-any-return]
    if reply.status == HTTPStatus.NOT_FOUND:
        raise NotServed(f"The cluster serves no model {model} yet.")
    # HAProxy says 500 where a replica has closed the connection.
    raise ReplicaFailed(f"The replicas for {model} do not answer.")


def _judge(reply: HttpReply) -> RowProblem:
    """Return the problem of a row. Raises errors where the replica refuses for its own
    sake."""
    problem = RowProblem(reply.read_json())
    match reply.status, problem.slug:
        case HTTPStatus.UNAUTHORIZED, _:
            raise ReplicaFailed("The replicas do not take the gateway's key.")
        case HTTPStatus.TOO_MANY_REQUESTS, _:
            retry_after_s = float(reply.headers.get("retry-after", 1))
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
    return deadline > time.monotonic() and not row.cancellation.is_cancelled


def _give_up(model: str, row: RowRequest, fault: Exception | None) -> Problem:
    """Return the reason why a row has no answer."""
    if row.cancellation.is_cancelled:
        return ClientGone()
    match fault:
        case None | ReadTimeout():
            return DeadlineExceeded("the model answered")
        case ReplicaFailed() | NotServed():
            return NotReady(str(fault))
        case ConnectionClosed():
            return NotReady(f"The replicas for {model} do not answer.")
    return NotReady("No ingress of the cluster can be reached.")
