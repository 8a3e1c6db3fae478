"""Captions many videos as one job, and writes each file as soon as it can."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, ClassVar

from pydantic import TypeAdapter

from clients.bulk import FileJob, Remarks
from clients.captioner import CaptionAnswer, Captioner, VideoEnd, check_decoder
from clients.journal import Journal, Origin, Report
from clients.outputs import CaptionPlan, write_whole
from clients.pipeline import Counts
from clients.subtitles import render


@dataclass(frozen=True, kw_only=True)
class CaptionJob(FileJob):
    """Videos, and who captions them."""

    plan: CaptionPlan
    captioner: Captioner

    events: ClassVar[TypeAdapter[Any]] = TypeAdapter(CaptionAnswer | VideoEnd)

    def check(self) -> None:
        check_decoder()

    def describe(self) -> Origin:
        reading = self.captioner.reading
        return {
            "url": self.captioner.server.url,
            "every": asdict(reading.every),
            "size": asdict(reading.size) if reading.size else None,
        }

    def run(self, report: Report, journal: Journal) -> Counts:
        summary = self.captioner.run(self.sources, report, journal.done)
        return Counts(summary.frames, summary.requests, summary.seconds)

    def publish(self, journal: Journal, ended: int) -> Remarks:
        for path, videos in self.plan.files.items():
            if videos[-1] == ended:
                pieces = chain.from_iterable(
                    render(self.plan.kind, self.sources[v].name, journal.read(v))
                    for v in videos
                )
                with write_whole(path) as file:
                    file.writelines(piece.encode() for piece in pieces)
        return Remarks()
