"""Decides what one model gets and which requests are refused: pure functions over what is
known of the model at one moment.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.admission.latency import LatencyEstimator
from gateway.admission.shared_counters import ModelLoad
from gateway.backends.backend import Capacity

#: The share of a request's time that a forecast may use up.
MARGIN = 0.8
LONGEST_RETRY_S = 60
#: The batch that each worker computes and the next one. More would wait behind the gateway,
#: where all clients are alike.
_BATCHES = 2
#: A few rows hide the way to the model and back, however small the batches are.
_FEWEST_ROWS = 4
#: The share of `response_timeout`, the limit for a batch, that the work in hand may take.
_TIMEOUT_SHARE = 0.25
#: The work in hand takes at most half of the average time limit, but at least this: short
#: limits need short batches.
_LEAST_WINDOW_S = 0.5
#: The weight of the next admitted row in that average, so that a caller cannot make batches
#: short, and slow, for others.
_GAIN = 0.2
#: Seconds between two tries by requests that would be late even if they were alone.
_TRY_S = 1.0


class Window(NamedTuple):
    """The rows, the work and the bytes that a model gets at once."""

    rows: int
    cost: float
    size: int


class Snapshot(NamedTuple):
    """A model at one moment, as far as it is known."""

    now: float
    #: This process's work, and that of all processes.
    own: ModelLoad
    load: ModelLoad
    #: The processes with waiting rows, at least one.
    processes: int
    window: Window
    latency: LatencyEstimator

    @property
    def begun_s(self) -> float:
        """Seconds since the model began with its work in hand. If it is overdue, it may need
        as long again, and the result is negative."""
        if not self.load.sent_rows:
            return 0.0
        silent_s = self.now - self.load.heard_at
        usual_s = self.latency.expect(self.load.sent)
        return silent_s if silent_s < usual_s else usual_s - silent_s


def start_limit(response_timeout_s: float) -> float:
    """The average time limit before any row was admitted."""
    return 2 * _TIMEOUT_SHARE * response_timeout_s


def follow_limit(average_s: float, limit_s: float, rows: int) -> float:
    """The average time limit after `rows` with this one were admitted."""
    return average_s + (1 - (1 - _GAIN) ** rows) * (limit_s - average_s)


def open_window(
    capacity: Capacity,
    batch_size: int,
    latency: LatencyEstimator,
    *,
    response_timeout_s: float,
    limit_s: float,
    mean_cost: float,
) -> Window:
    """The window of a model whose rows have this mean cost and average time limit."""
    longest_s = min(_TIMEOUT_SHARE * response_timeout_s, limit_s / 2)
    return Window(
        rows=max(_FEWEST_ROWS, _BATCHES * batch_size * capacity.workers),
        cost=max(mean_cost, latency.fit(max(_LEAST_WINDOW_S, longest_s))),
        size=capacity.most_bytes,
    )


def has_capacity(seen: Snapshot, cost: float, size: int) -> bool:
    """Whether the model can use one more row. Each process with waiting rows has its part;
    its own rows call the next ones as they come back."""
    own, load, window = seen.own, seen.load, seen.window
    if not own.sent_rows:
        return True
    if load.sent_bytes + size > window.size:
        return False
    is_own_part = (
        own.sent_rows < window.rows / seen.processes
        and own.sent + cost <= window.cost / seen.processes
    )
    return is_own_part or (
        load.sent_rows < window.rows and load.sent + cost <= window.cost
    )


def is_too_late(seen: Snapshot, cost: float, deadline: float) -> bool:
    """Whether a row that is sent now usually comes back after its deadline."""
    left_s = deadline - seen.now
    if not seen.load.sent_rows:
        return left_s < 0
    return seen.latency.expect(seen.load.sent + cost) - seen.begun_s > left_s


def forecast(seen: Snapshot, cost: float, mean_cost: float) -> float:
    """Seconds until the work in hand, and `cost` after it, are done."""
    window = min(seen.window.cost, seen.window.rows * mean_cost)
    needed_s = seen.latency.forecast(seen.load.sent + cost, window, seen.now)
    return needed_s - seen.begun_s


def may_try(seen: Snapshot, rows: int, left_s: float, tried_at: float) -> bool:
    """Whether a late request may test how fast the model is now: any that finds it idle, but
    only now and then if the model was too slow even for one row."""
    is_busy = seen.load.sent_rows + seen.load.waiting_rows > 0
    if is_busy or rows > seen.window.rows or left_s <= 0:
        return False
    return seen.latency.idle_s <= left_s or seen.now >= tried_at + _TRY_S
