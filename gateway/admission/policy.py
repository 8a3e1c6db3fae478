"""Decides what one model gets and which requests are refused: pure functions over what is
known of the model at one moment, and an estimate of how long it takes for its work.
"""

from typing import NamedTuple, Self

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
_LIMIT_GAIN = 0.2
#: Seconds between two tries by requests that would be late even if they were alone.
_TRY_S = 1.0
#: The weight of the next row in an average of times. Rows of a batch are alike, so a batch of
#: 64 replaces nearly all of it.
_ROW_GAIN = 0.05
#: Rows that find the model idle are rarer and weigh more.
_IDLE_GAIN = 0.3
#: A deviation is followed as by Jacobson and Karels (SIGCOMM 1988). TCP adds four of them to
#: a round trip; here they become as many as leave this part of the rows late, by stochastic
#: approximation (Robbins and Monro 1951).
_FEWEST_DEVIATIONS, _MOST_DEVIATIONS = 2.0, 4.0
_LATE, _LATE_STEP = 0.004, 0.2
#: Without new rows, what was learned loses half its weight in this time: while everything is
#: refused, nothing is learned.
_HALF_LIFE_S = 30.0


class LatencyEstimator(NamedTuple):
    """The line `seconds = idle + slope * cost` through the times of the rows before.

    `cost` is the model's work in hand when a row is sent, including the row. `seconds` count
    from the moment at which the model began with that work. The line begins at the time of a
    row that finds the model idle. At first nothing is known, and every forecast is 0. The
    value never changes: `learn` and `judge` return the next one.
    """

    idle_s: float = 0.0
    deviation_s: float = 0.0
    deviations: float = _FEWEST_DEVIATIONS
    #: The average delay by work in hand, that work, and the weight that the averages have by
    #: now: at last 1.
    excess_s: float = 0.0
    work: float = 0.0
    weight: float = 0.0
    #: The time at which it learned last; 0 if it has not.
    learned_at: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether any row was learned from."""
        return self.learned_at > 0

    @property
    def slope_s(self) -> float:
        """Seconds per unit of work."""
        return self.excess_s / self.work if self.work else 0.0

    def learn(
        self, cost: float, seconds: float, now: float, *, was_idle: bool = False
    ) -> Self:
        """Learn that work of this `cost` took `seconds`; a single row's if the model
        `was_idle`."""
        if not self.is_known:
            return self._replace(idle_s=seconds, learned_at=now)
        error_s = abs(seconds - self.expect(cost))
        if was_idle:
            return self._replace(
                idle_s=_follow(self.idle_s, seconds, _IDLE_GAIN),
                deviation_s=_follow(self.deviation_s, error_s, _IDLE_GAIN),
                deviations=_follow(self.deviations, _FEWEST_DEVIATIONS, _IDLE_GAIN),
                learned_at=now,
            )
        # For a model that is never idle, this corrects the effect of one slow row.
        idle_s = _follow(self.idle_s, min(self.idle_s, seconds), _ROW_GAIN)
        return type(self)(
            idle_s,
            _follow(self.deviation_s, error_s, _ROW_GAIN),
            self.deviations,
            _follow(self.excess_s, max(0.0, seconds - idle_s), _ROW_GAIN),
            _follow(self.work, cost, _ROW_GAIN),
            _follow(self.weight, 1.0, _ROW_GAIN),
            now,
        )

    def judge(self, *, is_late: bool) -> Self:
        """Learn whether a row that was admitted by forecast came too late."""
        step = _LATE_STEP * ((1 - _LATE) if is_late else -_LATE)
        wanted = max(_FEWEST_DEVIATIONS, self.deviations + step)
        if wanted == self.deviations:
            return self
        return self._replace(deviations=min(_MOST_DEVIATIONS, wanted))

    def expect(self, cost: float) -> float:
        """Seconds that work of this cost usually takes."""
        return self.idle_s + self.slope_s * cost

    def forecast(self, cost: float, window: float, now: float) -> float:
        """Seconds that work of this cost hardly ever exceeds if the model has `window` of it
        in hand at a time. By Little's law a full window passes in the time of its last row.

        The first batches have few rows and take nearly as long as full ones, so their slope
        is too steep. What the averages lack in weight counts as a window that took no longer
        than a single row.
        """
        at_once = min(cost, window)
        work = self.work + (1.0 - self.weight) * window
        excess_s = self.excess_s * at_once / work if work else 0.0
        windows = cost / at_once if at_once else 1.0
        in_window_s = (self.idle_s + excess_s) * windows
        worth = 2.0 ** ((self.learned_at - now) / _HALF_LIFE_S)
        return float(worth * (in_window_s + self.deviations * self.deviation_s))

    def fit(self, seconds: float) -> float:
        """The work that can be done within `seconds`."""
        if not self.slope_s:
            return float("inf")
        return max(0.0, seconds - self.idle_s) / self.slope_s


def _follow(average: float, value: float, gain: float) -> float:
    return average + gain * (value - average)


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
    return average_s + (1 - (1 - _LIMIT_GAIN) ** rows) * (limit_s - average_s)


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
