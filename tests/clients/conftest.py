"""The fake stack, a client for it, and jobs that are stopped and repeated."""

from collections.abc import Callable, Iterator

import pytest

from clients.bulk import Event, FileJob, Remarks, Tick, run_job
from clients.server import ApiClient, RetryPolicy
from tests.fake_api import FakeApi

#: The delay between two attempts of a request.
DELAY_S = 0.001


class Stop(Exception):
    """The end of a run between two lines of the journal, as by a kill."""


def run(
    job: FileJob, stop_after: int | None = None
) -> tuple[Remarks, list[tuple[Event, float]]]:
    """Run a job, and return its remarks and events. Raises Stop after `stop_after` events, not
    counting ticks."""
    events: list[tuple[Event, float]] = []

    def report(event: Event, share: float) -> None:
        events.append((event, share))
        kept = [event for event, _ in events if not isinstance(event, Tick)]
        if len(kept) == stop_after:
            raise Stop

    return run_job(job, report), events


def check_stops(make_job: Callable[[str], FileJob]) -> None:
    """Check that a job stopped after any event and repeated has the result of a whole one. The
    argument of `make_job` names the result."""
    whole = make_job("whole")
    outcome, events = run(whole)
    assert len(events) >= 12
    for stop_after in range(1, len(events) + 1):
        job = make_job(str(stop_after))
        with pytest.raises(Stop):
            run(job, stop_after)
        # A kill may happen after the journal's line is written but before the file is.
        for path in job.plan.files:
            path.unlink(missing_ok=True)
        again, rest = run(make_job(str(stop_after)))
        assert len(rest) == len(events) - stop_after
        assert again.errors == outcome.errors
        assert [*read_files(job).values()] == [*read_files(whole).values()]
        assert not job.plan.journal.exists()


def read_files(job: FileJob) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in job.plan.files if path.exists()}


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = "clients.server.RetryPolicy.choose_delay"
    monkeypatch.setattr(policy, lambda *_: DELAY_S)
    monkeypatch.setattr("clients.documents._FIRST_DELAY_S", DELAY_S)


@pytest.fixture
def stack() -> Iterator[FakeApi]:
    with FakeApi() as stack:
        yield stack


@pytest.fixture
def server(stack: FakeApi) -> Iterator[ApiClient]:
    """A client that gives up after three attempts."""
    patience = RetryPolicy(attempts=3, timeout_s=30)
    with ApiClient(stack.url, patience, connections=5) as server:
        yield server
