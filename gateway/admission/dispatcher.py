"""The rows of one model in this process, sent or waiting, and the clients they belong to."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gevent.event import Event

from catalog import Model
from gateway.admission import policy
from gateway.admission.policy import LONGEST_RETRY_S, MARGIN, LatencyEstimator, Snapshot
from gateway.admission.queue import AnnouncedWork, ClientQueue, FairQueue
from gateway.admission.shared_counters import ModelCounters, ModelLoad
from gateway.backends.backend import Capacity
from gateway.errors import ClientGone, DeadlineExceeded, Overloaded, Problem
from gateway.http.request import Call

#: Seconds for which a snapshot of a model may be used to send or refuse rows.
_FRESH_S = 0.001


@dataclass(eq=False)
class PendingRow:
    """A queued row."""

    cost: float
    size: int
    deadline: float
    #: Its share of the announced cost and rows: an upload may send unannounced rows.
    announced: tuple[float, int] = (0.0, 0)
    client: ClientQueue = ClientQueue("")
    joined_at: float = 0.0
    called: Event = field(default_factory=Event)
    is_sent: bool = False
    #: When it was sent: whether the model was idle, the model's work in hand with this row, and
    #: the seconds since the model began that work.
    was_idle: bool = False
    in_hand: float = 0.0
    begun_s: float = 0.0
    #: The reason it was not sent.
    problem: Problem | None = None

    def end(self, problem: Problem) -> None:
        """End the wait with `problem`."""
        self.problem = problem
        self.called.set()


class ModelDispatcher:
    """The dispatcher of one model's rows. It sends no more rows and bytes at once than the
    model can use, as `policy` decides."""

    def __init__(
        self, model: Model, counters: ModelCounters, capacity: Callable[[], Capacity]
    ) -> None:
        self._settings = model.settings
        self._capacity = capacity
        self._counters = counters
        #: This process's part of the shared counters.
        self._own = ModelLoad()
        self._announced = AnnouncedWork()
        self._queue: FairQueue[PendingRow] = FairQueue()
        #: The number of queued rows whose callers have stopped waiting.
        self._ended = 0
        self._latency = LatencyEstimator()
        #: The latest snapshot of the model; None once a row was sent or came back.
        self._seen: Snapshot | None = None
        #: The average time limit of admitted rows; the times at which a late request was last
        #: let through, and at which a request was last refused.
        self._limit_s = policy.start_limit(model.settings.response_timeout)
        self._tried_at = self.refused_at = -math.inf

    def count_waiting(self) -> float:
        """Return the number of rows that wait for this model in all processes."""
        return self._counters.read()[0].waiting_rows

    def is_silent_since(self, then: float) -> bool:
        """Whether the model has answered no process since then: the delay is the model's own,
        not due to its work for other clients."""
        return self._counters.read()[0].heard_at <= then

    def is_unused_since(self, then: float) -> bool:
        """Whether no process has had a row for this model since then."""
        load = self._counters.read()[0]
        return load.heard_at <= then and not (load.sent_rows or load.waiting_rows)

    def announce(
        self, client: ClientQueue, cost: float, rows: int, caller: Call
    ) -> None:
        """Announce rows that will be queued later. Raises Overloaded as `check` does."""
        self._seen = None  # it may predate another announcement
        if self.check(client, cost, rows, caller):
            self._tried_at = time.monotonic()
        self._limit_s = policy.follow_limit(self._limit_s, caller.limit_s, rows)
        self._announced.add(client, cost, rows)
        self._publish(self._own.heard_at)

    def check(self, client: ClientQueue, cost: float, rows: int, caller: Call) -> bool:
        """Raise Overloaded if such rows cannot finish in time. Return whether they are let
        through only to test how fast the model is now."""
        seen, mean_cost = self._look(), self._queue.mean_cost
        load = seen.load
        left_s = caller.deadline - seen.now
        if load.waiting_rows >= self._settings.queue_size:
            late_s = policy.forecast(seen, load.waiting, mean_cost)
            said = f"{load.waiting_rows:.0f} rows are waiting, which is the limit."
        else:
            # As in `FairQueue`, the last row counts at least as much as an average one.
            last = cost / max(1, rows)
            charged = cost - last + max(last, mean_cost)
            in_turns = self._announced.count_turns(client, charged) * seen.processes
            needed_s = policy.forecast(seen, in_turns, mean_cost)
            late_s = needed_s - left_s * MARGIN
            if late_s <= 0:
                return False
            if policy.may_try(seen, rows, left_s, self._tried_at):
                return True
            said = (
                f"This request and the work ahead of it would take about {needed_s:.1f} s; "
                f"it has {max(0.0, left_s):.1f} s left."
            )
        self.refused_at = seen.now
        raise Overloaded(said, retry_after_s=min(LONGEST_RETRY_S, late_s))

    def withdraw(self, client: ClientQueue, cost: float, rows: int) -> None:
        """Withdraw announced rows that will not be queued."""
        if cost or rows:
            self._announced.remove(client, cost, rows)
            self._publish(self._own.heard_at)

    def join(self, client: ClientQueue, row: PendingRow) -> None:
        """Queue a row behind its client's others; it stays announced until sent or given up."""
        row.client, row.joined_at = client, time.monotonic()
        self._queue.push(client, row.cost, row)
        self._send_next()

    def wait(self, row: PendingRow) -> None:
        """Wait until the row is sent; call `finish` later. Raises its problem if it has one."""
        try:
            if not row.called.wait(max(0.0, row.deadline - time.monotonic())):
                self._give_up(row, is_hung=self.is_silent_since(row.joined_at))
            if row.problem:
                raise row.problem
        except BaseException:
            self._abandon(row)
            raise

    def finish(self, row: PendingRow, seconds: float, *, is_answered: bool) -> None:
        """Record that a row came back or was given up `seconds` after it was sent.

        If the model answers other rows, a timeout means that it is slower than expected. A
        silent model may hang, and its latency is unknown."""
        now, latency = time.monotonic(), self._latency
        is_heard = self._own.heard_at > now - seconds or not latency.is_known
        took_s = row.begun_s + seconds
        if is_answered or (is_heard and took_s > latency.expect(row.in_hand)):
            latency = latency.learn(row.in_hand, took_s, now, was_idle=row.was_idle)
        self._latency = latency.judge(is_late=now > row.deadline)
        self._release(row, now if is_answered else self._own.heard_at)

    def _look(self) -> Snapshot:
        """Return a snapshot of the model, taken now or a moment ago."""
        now = time.monotonic()
        if self._seen and now < self._seen.now + _FRESH_S:
            return self._seen
        load, processes = self._counters.read()
        window = policy.open_window(
            self._capacity(),
            self._settings.batch_size,
            self._latency,
            response_timeout_s=self._settings.response_timeout,
            limit_s=self._limit_s,
            mean_cost=self._queue.mean_cost,
        )
        self._seen = Snapshot(
            now, self._own, load, max(1, processes), window, self._latency
        )
        return self._seen

    def _send_next(self) -> None:
        """Send rows while the model has capacity."""
        while self._queue:
            row, seen = self._queue.peek(), self._look()
            if not row.problem and not policy.has_capacity(seen, row.cost, row.size):
                return
            self._queue.pop()
            if row.problem:
                self._ended -= 1
            elif policy.is_too_late(seen, row.cost, row.deadline):
                is_overdue = row.deadline < seen.now or seen.begun_s < 0
                is_hung = is_overdue and seen.load.heard_at <= row.joined_at
                self._give_up(row, is_hung=is_hung)
            else:
                row.in_hand, row.begun_s = seen.load.sent + row.cost, seen.begun_s
                row.was_idle, row.is_sent = not seen.load.sent_rows, True
                heard_at = seen.now if row.was_idle else seen.load.heard_at
                self._announced.remove(row.client, *row.announced)
                self._publish(heard_at, 1, row.cost, row.size)
                row.called.set()

    def _release(self, row: PendingRow, heard_at: float) -> None:
        self._publish(heard_at, -1, -row.cost, -row.size)
        self._send_next()

    def _give_up(self, row: PendingRow, *, is_hung: bool) -> None:
        self._latency = self._latency.judge(is_late=True)
        silent = DeadlineExceeded("the unresponsive model answered")
        row.end(silent if is_hung else late())

    def _abandon(self, row: PendingRow) -> None:
        """Drop a row whose caller has stopped waiting."""
        if row.is_sent:
            self._release(row, self._own.heard_at)
            return
        self.withdraw(row.client, *row.announced)
        if row.problem is None or isinstance(row.problem, ClientGone):  # had no turn
            self._queue.refund(row.client, row.cost)
        row.problem = row.problem or late()
        self._ended += 1
        if 2 * self._ended > len(self._queue):
            self._queue.retain(lambda waiting: waiting.problem is None)
            self._ended = 0

    def _publish(
        self, heard_at: float, rows: int = 0, cost: float = 0.0, size: int = 0
    ) -> None:
        """Publish the announced rows, and the sent ones changed by these amounts."""
        own = self._own
        if rows:
            self._seen = None
        self._own = ModelLoad(
            own.sent_rows + rows,
            own.sent + cost,
            own.sent_bytes + size,
            self._announced.rows,
            self._announced.cost,
            heard_at,
        )
        self._counters.publish(self._own)


def late() -> Overloaded:
    """Return the refusal of an admitted row that other rows have delayed too long."""
    return Overloaded("The work ahead of this row took longer than expected.")
