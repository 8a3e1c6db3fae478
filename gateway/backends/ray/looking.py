"""Asks the cluster for the state of a model, on the way that its rows go."""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus
from itertools import cycle, islice

import urllib3
from pydantic import BaseModel, ValidationError

from catalog import Model
from contract.problems import CONTENT_TYPE
from contract.rows import prediction_path
from gateway.backends.backend import ModelState
from gateway.backends.http_pool import ConnectError, ConnectionClosed, ReadTimeout
from gateway.backends.ray.addresses import Address

#: How long a replica may take to say how it is, how often another one is asked, and how long
#: all of that may take.
_LIMIT_S = 2.0
_MOST_LOOKS = 3
WHOLE_S = 5.0


class _State(BaseModel):
    """The state of a replica, in its own words."""

    is_ready: bool
    batch_size: int
    queued_rows: int
    #: Why it is not ready.
    detail: str = ""


def look(addresses: Sequence[Address], model: Model) -> ModelState:
    """The state of the first replica that is ready; else why the last one asked is not. The
    first addresses are asked, one of a few even several times."""
    reason = ""
    give_up_at = time.monotonic() + WHOLE_S
    for address in islice(cycle(addresses), _MOST_LOOKS):
        found = _ask(address, model)
        if isinstance(found, ModelState):
            return found
        reason = found
        if time.monotonic() > give_up_at - _LIMIT_S:
            break
    return ModelState(
        is_ready=False,
        batch_size=model.settings.batch_size,
        queued_rows=0,
        reason=reason,
    )


def _ask(address: Address, model: Model) -> ModelState | str:
    """The state of a replica that is ready, or why there is none."""
    path = prediction_path(model.name)
    try:
        response = address.call("GET", path, {}, until=time.monotonic() + _LIMIT_S)
    except ReadTimeout:  # it has none to pass this on to
        return "No replica answers."
    except (ConnectError, ConnectionClosed) as error:
        return f"{address.channel.url}: {error}"
    return _read(response)


def _read(response: urllib3.BaseHTTPResponse) -> ModelState | str:
    if response.status == HTTPStatus.NOT_FOUND:
        return "The cluster serves no such model."
    if response.headers.get("Content-Type") == CONTENT_TYPE:
        return str(response.json()["detail"])
    try:
        found = _State.model_validate_json(response.data)
    except ValidationError:
        return f"No replica answers (status {response.status})."
    if not found.is_ready:
        return found.detail or "The replica is not ready."
    return ModelState(True, found.batch_size, found.queued_rows)
