"""A client's job of two files with two answers each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from clients.bulk import End, Event, FileJob, Journal, Remarks, Report, run_job
from clients.errors import ClientError
from clients.files import OutputPlan, Source, write_whole
from tests.durability.running import Diary

TEXTS = (("a", "b"), ("c", "d"))


@dataclass(frozen=True)
class Said(Event):
    text: str

    @property
    def size(self) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class SayJob(FileJob):
    diary: Diary

    unit: ClassVar[str] = "texts"
    events: ClassVar[TypeAdapter[Any]] = TypeAdapter(Said | End)

    def check(self) -> None:
        pass

    def describe(self) -> Mapping[str, Any]:
        return {}

    def run(self, report: Report, journal: Journal) -> None:
        for number, texts in enumerate(TEXTS):
            if number in journal.done.ended:
                continue
            for text in texts[journal.done.answered.get(number, 0) :]:
                self.diary.tell("asked", text)
                report(Said(number, text.upper()), 0)
                self.diary.tell("kept", text)
            report(End(number), 0)

    def publish(self, journal: Journal, end: End) -> Remarks:
        with write_whole(self.plan.files[end.source]) as file:
            for event in journal.read(end.source):
                file.write(event.text.encode() if isinstance(event, Said) else b".")
        return Remarks()


def make_job(folder: Path, diary: Diary) -> SayJob:
    files = [folder / f"out/{number}" for number in range(len(TEXTS))]
    sources = [Source(Path(f"{n}"), Path(f"{n}"), 1, 0) for n in range(len(TEXTS))]
    plan = OutputPlan(files, folder / "journal.part")
    return SayJob(sources=sources, plan=plan, diary=diary)


def act(folder: Path, diary: Diary) -> None:
    job = make_job(folder, diary)
    diary.attempt("job", lambda: run_job(job, lambda *_: None), ClientError)


def check(folder: Path, diary: Diary) -> None:
    job = make_job(folder, diary)
    if job.plan.journal.exists() or not any(map(Path.exists, job.plan.files)):
        run_job(job, lambda *_: None)
    for file, texts in zip(job.plan.files, TEXTS, strict=True):
        assert file.read_text() == "".join(texts).upper() + "."
    assert {path.name for path in folder.rglob("*")} == {"out", "0", "1"}
    story = diary.path.read_text().splitlines()
    for text in diary.find("kept"):
        assert f"asked {text}" not in story[story.index(f"kept {text}") :]
