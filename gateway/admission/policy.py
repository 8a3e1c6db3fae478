"""Decides which rows one model gets and which requests are refused: pure functions of a
snapshot of the model, and an estimate of its latency.
"""

from typing import NamedTuple, Self

from gateway.admission.shared_counters import ModelLoad
from gateway.backends.backend import Capacity

#: The share of a request's time that a forecast may use up.
MARGIN = 0.8
LONGEST_RETRY_S = 60
#: Batches in hand per worker: the current one and the next. More would queue outside the
#: gateway, where all clients are treated alike.
_BATCHES = 2
#: However small the batches are, a few rows in hand hide the round trip to the model.
_FEWEST_ROWS = 4
#: The share of `response_timeout`, the limit for a batch, that the work in hand may take.
_TIMEOUT_SHARE = 0.25
#: Short limits need short batches: the work in hand takes at most half of the average time
#: limit, or this many seconds if that is more.
_LEAST_WINDOW_S = 0.5
#: The weight of the next admitted row in that average: a single caller cannot make the batches
#: of all others short, and slow.
_LIMIT_GAIN = 0.2
#: Seconds between two tests by requests that would be late even if they were alone.
_TRY_S = 1.0
#: The weight of the next row in an average of times. The rows of a batch have similar times, so
#: a batch of 64 replaces nearly all of it.
_ROW_GAIN = 0.05
#: Rows that find the model idle are rarer and weigh more.
_IDLE_GAIN = 0.3
#: The deviation is averaged as by Jacobson and Karels (SIGCOMM 1988). TCP adds four of them to
#: a round trip; here stochastic approximation (Robbins and Monro 1951) finds the number that
#: leaves this share of rows late.
_FEWEST_DEVIATIONS, _MOST_DEVIATIONS = 2.0, 4.0
_LATE, _LATE_STEP = 0.004, 0.2
#: The estimate's half-life without new rows: it learns nothing while all requests are refused.
_HALF_LIFE_S = 30.0


class LatencyEstimator(NamedTuple):
    """The line `seconds = idle + slope * cost` through the times of earlier rows.

    `cost` is the model's work in hand when a row is sent, including the row. `seconds` count
    from the moment the model began that work. The line starts at the time of a row that finds
    the model idle. At first nothing is known, and every forecast is 0. Values are immutable:
    `learn` and `judge` return new ones."""

    idle_s: float = 0.0
    deviation_s: float = 0.0
    deviations: float = _FEWEST_DEVIATIONS
    #: The average delay due to work in hand, the average of that work, and the weight of both
    #: averages so far, which approaches 1.
    excess_s: float = 0.0
    work: float = 0.0
    weight: float = 0.0
    #: The time of the last call of `learn`; 0 before the first.
    learned_at: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether any row has been learned from."""
        return self.learned_at > 0

    @property
    def slope_s(self) -> float:
        """Seconds per unit of work."""
        return self.excess_s / self.work if self.work else 0.0

    def learn(
        self, cost: float, seconds: float, now: float, *, was_idle: bool = False
    ) -> Self:
        """Learn that work of this `cost` took `seconds`; of one row if the model `was_idle`."""
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
        # For a model that is never idle, this corrects the effect of one slow row. The time of
        # a row that was sent while the model was overdue may be negative.
        least_s = max(0.0, min(self.idle_s, seconds))
        idle_s = _follow(self.idle_s, least_s, _ROW_GAIN)
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
        """Learn whether a row that was admitted by forecast came back too late."""
        step = _LATE_STEP * ((1 - _LATE) if is_late else -_LATE)
        wanted = max(_FEWEST_DEVIATIONS, self.deviations + step)
        if wanted == self.deviations:
            return self
        return self._replace(deviations=min(_MOST_DEVIATIONS, wanted))

    def expect(self, cost: float) -> float:
        """Seconds that work of this cost usually takes."""
        return self.idle_s + self.slope_s * cost

    def forecast(self, cost: float, window: float, now: float) -> float:
        """Seconds that work of this cost rarely exceeds if the model gets `window` of it at a
        time. By Little's law, a full window passes in the time of its last row.

        The first batches have few rows and take nearly as long as full ones, so their slope is
        too steep. The weight that the averages lack counts as a window as fast as one row."""
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
    """The most rows, work and bytes that a model gets at once."""

    rows: int
    cost: float
    size: int


class Snapshot(NamedTuple):
    """The known state of a model at one moment."""

    now: float
    #: This process's work, and that of all processes.
    own: ModelLoad
    load: ModelLoad
    #: The number of processes with waiting rows, at least 1.
    processes: int
    window: Window
    latency: LatencyEstimator

    @property
    def begun_s(self) -> float:
        """Seconds since the model began its work in hand. Negative if the work is overdue: the
        model may need as long again."""
        if not self.load.sent_rows:
            return 0.0
        silent_s = self.now - self.load.heard_at
        usual_s = self.latency.expect(self.load.sent)
        return silent_s if silent_s < usual_s else usual_s - silent_s


def start_limit(response_timeout_s: float) -> float:
    """The average time limit before any row is admitted."""
    return 2 * _TIMEOUT_SHARE * response_timeout_s


def follow_limit(average_s: float, limit_s: float, rows: int) -> float:
    """The average time limit after admitting this many rows with this limit."""
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
    """Whether the model can use one more row. Each process with waiting rows has a share of the
    window, and sends its next rows as its own come back."""
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
    """Whether a row sent now would usually come back after its deadline."""
    left_s = deadline - seen.now
    if not seen.load.sent_rows:
        return left_s < 0
    return seen.latency.expect(seen.load.sent + cost) - seen.begun_s > left_s


def forecast(seen: Snapshot, cost: float, mean_cost: float) -> float:
    """Seconds until the work in hand, and `cost` after it, are done."""
    window = min(seen.window.cost, seen.window.rows * mean_cost)
    return seen.latency.forecast(seen.load.sent + cost, window, seen.now) - seen.begun_s


def may_try(seen: Snapshot, rows: int, left_s: float, tried_at: float) -> bool:
    """Whether a late request may test how fast the model is now. Any may if the model is idle,
    but only occasionally if the model was too slow even for one row."""
    is_busy = seen.load.sent_rows + seen.load.waiting_rows > 0
    if is_busy or rows > seen.window.rows or left_s <= 0:
        return False
    return seen.latency.idle_s <= left_s or seen.now >= tried_at + _TRY_S
