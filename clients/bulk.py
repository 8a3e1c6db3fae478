"""Runs many files as one resumable job, and writes each result as soon as it can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import TypeAdapter

from clients.errors import OutputError
from clients.journal import End, Event, Journal, Origin, Report, Tick
from clients.outputs import OutputPlan
from clients.pipeline import Counts
from clients.sources import Source


@dataclass(frozen=True)
class Remarks:
    """Remarks on a file."""

    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class FileJob(ABC):
    """A bulk job: the work, its files, and where the results go."""

    sources: Sequence[Source]
    plan: OutputPlan
    #: Files that are there are replaced, and so is another job's journal.
    is_overwrite: bool = False

    #: Reads a line of the journal.
    events: ClassVar[TypeAdapter[Any]]

    @abstractmethod
    def check(self) -> None:
        """Raises ClientError where nothing can come of it."""

    @abstractmethod
    def describe(self) -> Origin:
        """Describe what the answers depend on beside the files."""

    @abstractmethod
    def run(self, report: Report, journal: Journal) -> Counts:
        """Does what the journal does not have. Raises ClientError."""

    @abstractmethod
    def publish(self, journal: Journal, ended: int) -> Remarks:
        """Writes the result whose last source this is; may be called again."""


@dataclass(frozen=True)
class BulkResult:
    """The result of a job."""

    counts: Counts
    #: One sentence for each file that is broken, and for what a file has lost.
    errors: Sequence[str]
    warnings: Sequence[str]


def run_job(job: FileJob, report: Report) -> BulkResult:
    """Does what is missing, writes all files. Raises ClientError, keeps the journal."""
    existing = job.plan.find_existing()
    if existing and not job.is_overwrite and not job.plan.journal.exists():
        raise OutputError(f"{existing[0]} is there already: --overwrite replaces it")
    job.check()
    files = [
        [source.name, source.size_bytes, source.modified_ns] for source in job.sources
    ]
    with Journal(
        job.plan.journal,
        {**job.describe(), "files": files},
        job.events,
        is_restart=job.is_overwrite,
    ) as journal:
        remarks = {ended: job.publish(journal, ended) for ended in journal.done.ended}

        def write(event: Event, share: float) -> None:
            if not isinstance(event, Tick):
                journal.append(event)
            if isinstance(event, End):
                remarks[event.source] = job.publish(journal, event.source)
            report(event, share)

        counts = job.run(write, journal)
        journal.remove()
        broken = [journal.errors[source] for source in sorted(journal.errors)]
        said = [remarks[source] for source in sorted(remarks)]
        return BulkResult(
            counts,
            [*broken, *(line for each in said for line in each.errors)],
            [line for each in said for line in each.warnings],
        )
