"""Captions many videos as one resumable job, and writes each file as soon as it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain

from clients.captioner import Answer, Captioner, End, Report, Sending, Summary
from clients.errors import OutputError
from clients.frames import Reading
from clients.journal import Journal
from clients.outputs import Plan, write_whole
from clients.server import Server
from clients.subtitles import render
from clients.videos import Video


@dataclass(frozen=True)
class Job:
    """What to caption, how, and where to."""

    videos: Sequence[Video]
    plan: Plan
    reading: Reading
    sending: Sending
    is_full_size: bool = False
    #: Files that are there are replaced, and so is another job's journal.
    is_overwrite: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of a job."""

    summary: Summary
    #: One sentence for each video that is broken.
    errors: Sequence[str]


def run_job(job: Job, server: Server, report: Report) -> Outcome:
    """Captions what is missing, writes all files. Raises ClientError, keeps the journal."""
    existing = job.plan.find_existing()
    if existing and not job.is_overwrite and not job.plan.journal.exists():
        raise OutputError(f"{existing[0]} is there already: --overwrite replaces it")
    reading = job.reading
    if not job.is_full_size:
        reading = replace(reading, size=server.find_input())
    origin = _describe(job, reading, server)
    with Journal(job.plan.journal, origin, is_restart=job.is_overwrite) as journal:
        done = journal.done
        for video in done.ended:
            _publish(job, journal, video)

        def write(event: Answer | End, share: float) -> None:
            journal.append(event)
            if isinstance(event, End):
                _publish(job, journal, event.video)
            report(event, share)

        captioner = Captioner(server, reading, job.sending)
        summary = captioner.run(job.videos, write, done)
        journal.remove()
        return Outcome(summary, journal.errors)


def _describe(job: Job, reading: Reading, server: Server) -> dict[str, object]:
    """Everything on which captions depend."""
    return {
        "url": server.url,
        "every": asdict(reading.every),
        "size": asdict(reading.size) if reading.size else None,
        "videos": [
            [video.name, video.size_bytes, video.modified_ns] for video in job.videos
        ],
    }


def _publish(job: Job, journal: Journal, ended: int) -> None:
    """Writes the file whose last video this is."""
    for path, videos in job.plan.files.items():
        if videos[-1] == ended:
            pieces = (
                render(job.plan.kind, job.videos[video].name, journal.read(video))
                for video in videos
            )
            write_whole(path, chain.from_iterable(pieces))
