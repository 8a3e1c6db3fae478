"""One model's rows in this process: those sent to the model, those that wait, and the
clients they belong to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gevent.event import Event

from catalog import Model
from gateway.admission.latency import LatencyEstimator
from gateway.admission.queue import ClientQueue, FairQueue
from gateway.admission.shared_counters import ModelBoard, ModelLoad
from gateway.backends.backend import Capacity
from gateway.errors import DeadlineExceeded, Overloaded, Problem
from gateway.http.caller import Caller

#: The batch that each worker computes and the next one. More would wait behind the gateway,
#: where all clients are alike.
_BATCHES = 2
#: A few rows hide the way to the model and back, however small the batches are.
_FEWEST_ROWS = 4
#: The share of a request's time that a forecast may use up.
MARGIN = 0.8
#: The share of `response_timeout`, the limit for a batch, that the work in hand may take.
_TIMEOUT_SHARE = 0.25
#: The work in hand takes at most half of the average time limit, but at least this: short
#: limits need short batches. It is the average of admitted rows, in which the next one has
#: this weight, so that a caller cannot make batches short, and slow, for others.
_LEAST_WINDOW_S = 0.5
_GAIN = 0.2
LONGEST_RETRY_S = 60
#: Seconds between two tries by requests that would be late even if they were alone.
_TRY_S = 1.0


@dataclass(eq=False)
class PendingRow:
    """A row that waits."""

    cost: float
    size: int
    deadline: float
    joined_at: float = 0.0
    called: Event = field(default_factory=Event)
    is_sent: bool = False
    #: Whether the model was idle; its work in hand with this row; and the seconds since it
    #: began with that.
    was_idle: bool = False
    in_hand: float = 0.0
    begun_s: float = 0.0
    #: Why it is not sent.
    problem: Problem | None = None

    def end(self, problem: Problem) -> None:
        """Ends the wait with `problem`."""
        self.problem = problem
        self.called.set()


@dataclass
class _Share:
    """The rows that one client has announced and not been given."""

    cost: float = 0.0
    rows: int = 0


class ModelDispatcher:
    """The way to one model. It sends no more rows and bytes at once than the model can use."""

    def __init__(
        self, model: Model, board: ModelBoard, find_room: Callable[[], Capacity]
    ) -> None:
        settings = model.settings
        self.pace = LatencyEstimator()
        self._board = board
        self._queue: FairQueue[PendingRow] = FairQueue()
        #: Queued rows that nobody waits for any more.
        self._ended = 0
        self._shares: dict[ClientQueue, _Share] = {}
        #: The sums over all shares, of which there may be thousands.
        self._waiting_rows, self._waiting, self._weights = 0, 0.0, 0
        self._batch_size = settings.batch_size
        self._find_room = find_room
        self._most_waiting = settings.queue_size
        self._timeout_s = settings.response_timeout * _TIMEOUT_SHARE
        self._limit_s = 2 * self._timeout_s
        self._sent_rows, self._sent, self._sent_bytes = 0, 0.0, 0
        #: When the model last showed that it is alive.
        self._heard_at = 0.0
        self._tried_at = -math.inf

    @property
    def _most_rows(self) -> int:
        """The rows that the model gets at once."""
        wanted = _BATCHES * self._batch_size * self._find_room().workers
        return max(_FEWEST_ROWS, wanted)

    def count_waiting(self) -> float:
        """Rows that wait for this model in all processes."""
        return self._board.read()[0].waiting_rows

    def announce(
        self, flow: ClientQueue, cost: float, rows: int, caller: Caller
    ) -> None:
        """Announces rows that will come. Raises what `check` raises."""
        self.check(flow, cost, rows, caller)
        gain = 1 - (1 - _GAIN) ** rows
        self._limit_s += gain * (caller.limit_s - self._limit_s)
        if flow not in self._shares:
            self._shares[flow] = _Share()
            self._weights += flow.weight
        self._count(self._shares[flow], cost, rows)

    def check(self, flow: ClientQueue, cost: float, rows: int, caller: Caller) -> None:
        """Raises Overloaded if such rows cannot be done in time."""
        load, processes = self._board.read()
        if load.waiting_rows >= self._most_waiting:
            raise Overloaded(
                f"{load.waiting_rows:.0f} rows wait already, which is the limit.",
                retry_after_s=min(LONGEST_RETRY_S, self._forecast(load, load.waiting)),
            )
        in_turns = self._count_turns(flow, cost, rows) * max(1, processes)
        needed_s = self._forecast(load, in_turns)
        left_s = caller.deadline - time.monotonic()
        if needed_s > left_s * MARGIN and not self._may_try(load, rows, left_s):
            raise Overloaded(
                f"The work before this request and its own take about {needed_s:.1f} s, it "
                f"has {max(0.0, left_s):.1f} s.",
                retry_after_s=min(LONGEST_RETRY_S, needed_s - left_s * MARGIN),
            )

    def withdraw(self, flow: ClientQueue, cost: float, rows: int) -> None:
        """Takes back rows that were announced: they were sent, or will not come."""
        share = self._shares.get(flow)
        if share is None:
            return
        self._count(share, -cost, -rows)
        if not share.rows:
            del self._shares[flow]
            self._weights -= flow.weight
            self._waiting = self._waiting - share.cost if self._shares else 0.0

    def join(self, flow: ClientQueue, turn: PendingRow) -> None:
        """Queues a row behind those of its client."""
        turn.joined_at = time.monotonic()
        self._queue.push(flow, turn.cost, turn)
        self._call()

    def wait(self, turn: PendingRow) -> None:
        """Returns at this row's turn; `finish` must follow. Raises the problem that ended the
        turn."""
        try:
            if not turn.called.wait(max(0.0, turn.deadline - time.monotonic())):
                self.pace.judge(is_late=True)
                turn.end(_hung() if self.is_silent_since(turn.joined_at) else late())
            if turn.problem:
                raise turn.problem
        except BaseException:
            self._abandon(turn)
            raise

    def finish(self, turn: PendingRow, seconds: float, *, is_answered: bool) -> None:
        """Notes that a row came back or was given up `seconds` after it was sent.

        A time-out means that the model is slower than expected if it answers other rows. A
        silent model may hang, and its pace is unknown.
        """
        now = time.monotonic()
        is_heard = self._heard_at > now - seconds or not self.pace.is_known
        took_s = turn.begun_s + seconds
        if is_answered or (is_heard and took_s > self.pace.expect(turn.in_hand)):
            self.pace.learn(turn.in_hand, took_s, was_idle=turn.was_idle)
        self.pace.judge(is_late=now > turn.deadline)
        if is_answered:
            self._heard_at = now
        self._release(turn)

    def is_silent_since(self, then: float) -> bool:
        """Whether the model has answered no process since then: it is late for everybody, and
        not because of its work for others."""
        return self._board.read()[0].heard_at <= then

    def _abandon(self, turn: PendingRow) -> None:
        """Forgets a row that nobody waits for any more."""
        if turn.is_sent:
            self._release(turn)
            return
        turn.problem = turn.problem or late()
        self._ended += 1
        if 2 * self._ended > len(self._queue):
            self._queue.retain(lambda waiting: waiting.problem is None)
            self._ended = 0

    def _release(self, turn: PendingRow) -> None:
        self._sent_rows -= 1
        self._sent -= turn.cost
        self._sent_bytes -= turn.size
        self._tell()
        self._call()

    def _call(self) -> None:
        """Calls as many rows as the model may have."""
        while self._queue:
            turn = self._queue.peek()
            load, processes = self._board.read()
            if not turn.problem and not self._has_room(turn, load, max(1, processes)):
                return
            self._queue.pop()
            if turn.problem:
                self._ended -= 1
                continue
            left_s = turn.deadline - time.monotonic()
            in_hand, begun_s = load.sent + turn.cost, self._count_begun(load)
            needed_s = self.pace.expect(in_hand) - begun_s if load.sent_rows else 0.0
            if needed_s > left_s:
                self.pace.judge(is_late=True)
                is_overdue = left_s < 0 or begun_s < 0
                is_hung = is_overdue and self.is_silent_since(turn.joined_at)
                turn.end(_hung() if is_hung else late())
                continue
            turn.in_hand, turn.begun_s = in_hand, begun_s
            turn.was_idle = not load.sent_rows
            self._heard_at = time.monotonic() if turn.was_idle else load.heard_at
            self._send(turn)

    def _send(self, turn: PendingRow) -> None:
        self._sent_rows += 1
        self._sent += turn.cost
        self._sent_bytes += turn.size
        self._tell()
        turn.is_sent = True
        turn.called.set()

    def _has_room(self, turn: PendingRow, load: ModelLoad, processes: int) -> bool:
        """Whether the model can use one more row. Each process with waiting rows has its
        part; its own rows call the next ones as they come back."""
        if not self._sent_rows:
            return True
        if load.sent_bytes + turn.size > self._find_room().most_bytes:
            return False
        most = self._most_cost()
        is_own_part = (
            self._sent_rows < self._most_rows / processes
            and self._sent + turn.cost <= most / processes
        )
        is_free = load.sent_rows < self._most_rows and load.sent + turn.cost <= most
        return is_own_part or is_free

    def _most_cost(self) -> float:
        """The work that the model gets at once."""
        window_s = max(_LEAST_WINDOW_S, min(self._timeout_s, self._limit_s / 2))
        return max(self._queue.mean_cost, self.pace.fit(window_s))

    def _forecast(self, load: ModelLoad, cost: float) -> float:
        """Seconds until the work in hand, and `cost` after it, are done."""
        window = min(self._most_cost(), self._most_rows * self._queue.mean_cost)
        begun_s = self._count_begun(load)
        return self.pace.forecast(load.sent + cost, window) - begun_s

    def _count_begun(self, load: ModelLoad) -> float:
        """Seconds since the model began with its work in hand. If it is overdue, it may need
        as long again, and the result is negative."""
        if not load.sent_rows:
            return 0.0
        silent_s = time.monotonic() - load.heard_at
        usual_s = self.pace.expect(load.sent)
        return silent_s if silent_s < usual_s else usual_s - silent_s

    def _count_turns(self, flow: ClientQueue, cost: float, rows: int) -> float:
        """The waiting work that will be done by the end of this client's: until then every
        other client gets its share. The last row counts as in `FairQueue`."""
        own = self._shares.get(flow)
        weights = self._weights + (0 if own else flow.weight)
        row = cost / max(1, rows)
        before = (own.cost if own else 0.0) + cost - row
        return (before + max(row, self._queue.mean_cost)) * weights / flow.weight

    def _may_try(self, load: ModelLoad, rows: int, left_s: float) -> bool:
        """Lets a request test how fast the model is now: any that finds it idle, but only now
        and then if the model was too slow even for one row."""
        now = time.monotonic()
        if load.sent_rows + load.waiting_rows or rows > self._most_rows or left_s <= 0:
            return False
        if self.pace.idle_s > left_s and now < self._tried_at + _TRY_S:
            return False
        self._tried_at = now
        return True

    def _count(self, share: _Share, cost: float, rows: int) -> None:
        share.cost += cost
        share.rows += rows
        self._waiting += cost
        self._waiting_rows += rows
        self._tell()

    def _tell(self) -> None:
        self._board.tell(
            ModelLoad(
                sent_rows=self._sent_rows,
                sent=self._sent,
                sent_bytes=self._sent_bytes,
                waiting_rows=self._waiting_rows,
                waiting=self._waiting,
                heard_at=self._heard_at,
            )
        )


def _hung() -> DeadlineExceeded:
    return DeadlineExceeded("The deadline passes while the model is silent.")


def late() -> Overloaded:
    """The answer to a row that was admitted and comes too late because of others."""
    return Overloaded("The work before this row has taken longer than expected.")
