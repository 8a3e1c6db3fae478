"""The fake stack, one client of it, and jobs that are stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.bulk import Event, FileJob, Remarks, Tick, run_job
from clients.server import ApiClient, RetryPolicy
from tests.fake_api import FakeApi

#: Between two attempts of a request.
DELAY_S = 0.001


class Stop(Exception):
    """Ends a run as a kill would, between two lines of the journal."""


def run(
    job: FileJob, stop_after: int | None = None
) -> tuple[Remarks, list[tuple[Event, float]]]:
    """The remarks and the events of a job. Raises Stop after this number of events, ticks
    aside."""
    events: list[tuple[Event, float]] = []

    def report(event: Event, share: float) -> None:
        events.append((event, share))
        kept = [event for event, _ in events if not isinstance(event, Tick)]
        if len(kept) == stop_after:
            raise Stop

    return run_job(job, report), events


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
    """Gives up after three attempts."""
    patience = RetryPolicy(attempts=3, timeout_s=30)
    with ApiClient(stack.url, patience, connections=5) as server:
        yield server
