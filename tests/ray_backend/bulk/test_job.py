"""Runs that are interrupted, resumed or repeated, and their results for texts and videos."""

import io
import json
import os
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catalog import VISION, Model
from clients.captions import Captioner, Sending, SubtitleFormat
from clients.errors import ClientError
from clients.files import Source, find_sources
from clients.frames import Every, VideoOptions
from clients.tables import Cell
from contract import durable
from handlers.base import Outcome, Result, Row, TaskError
from ray_backend.bulk.job import (
    Answerer,
    BulkCaptioning,
    LocalModel,
    VideoAnswer,
    caption_source,
)
from ray_backend.bulk.storage import ResultFolder, Store
from tests.clients.drawing import draw_number, read_number, write_numbers, write_video
from tests.ray_backend.bulk.conftest import (
    REQUEST,
    Bench,
    Died,
    RunTotals,
    Shouting,
    check,
    fill,
)

FUTURE_S = 2**33


def test_errors_of_an_unfinished_run_still_count(bench):
    bench.most_texts = 2
    bench.write("a.txt", "one\nbad two\n")
    bench.write("b.txt", "three\n")
    with pytest.raises(KeyboardInterrupt):
        bench.run(stop_after=1)
    assert bench.run().wrong == 1
    expected = "an earlier, unfinished run has left texts without a result"
    assert bench.errors[-1] == expected
    assert bench.run().wrong == 0


def test_what_a_kill_has_torn_never_counts(bench):
    texts = {"a.jsonl": ["one"] * 9}
    bench.write_records("a.jsonl", texts["a.jsonl"])
    with pytest.raises(KeyboardInterrupt):
        bench.run(stop_after=2)
    # Turn a part into a draft, and leave torn drafts of the result.
    (*_, part) = sorted((bench.results / ".bulk").glob("*-000001"))
    part.rename(part.with_name(f".{part.name}.draft"))
    (bench.results / ".a.fr.jsonl.draft").write_text("torn")
    (bench.results / "a.fr.jsonl.new").write_text("torn")
    bench.run()
    (bench.results / ".a.fr.jsonl.draft").unlink(missing_ok=True)
    (bench.results / "a.fr.jsonl.new").unlink(missing_ok=True)
    check(bench, texts)


def test_a_source_that_has_changed_is_told(bench):
    source = bench.write("a.txt", "one\n")
    bench.run()
    os.utime(source, (FUTURE_S, FUTURE_S))
    assert bench.run().wrong == 1
    assert "has changed since a.fr.txt was written" in bench.errors[0]
    os.utime(source, (1, 1))
    assert bench.run(is_overwrite=True).there == 0
    assert bench.run().wrong == 0


def test_a_run_does_not_go_on_with_other_options(bench):
    fill(bench)
    with pytest.raises(KeyboardInterrupt):
        bench.run(stop_after=1)
    other = replace(bench.make_job(), request=replace(REQUEST, source=None))
    with pytest.raises(ClientError, match="unfinished run there has other options"):
        bench.run(job=other)
    bench.run(job=other, is_overwrite=True)
    assert not (bench.results / ".bulk").exists()


def test_a_run_that_begins_as_another_ends_locks_no_removed_file(bench, monkeypatch):
    folder, try_lock = ResultFolder(bench.results), durable.try_lock
    with ExitStack() as other:
        other.enter_context(folder.lock())
        late = lambda file: other.close() or try_lock(file)  # type: ignore  # noqa: E731
        monkeypatch.setattr(durable, "try_lock", late)
        with pytest.raises(ClientError, match="is writing there"), folder.lock():
            pass


def test_a_run_removes_its_folder_while_it_has_the_lock(bench, monkeypatch):
    """Otherwise it would remove the next run's, before that writes its first file."""
    folder, rmdir = ResultFolder(bench.results), Path.rmdir

    def remove(path: Path) -> None:
        with pytest.raises(ClientError, match="is writing there"), folder.lock():
            pass
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", remove)
    bench.write("a.txt", "one\n")
    bench.run()


def test_results_may_be_beside_their_sources(bench):
    bench.write("a.txt", "one\n")
    bench.results = bench.sources
    bench.run()
    assert bench.run().there == 1
    assert bench.list_results() == ["a.fr.txt", "a.txt"]


def test_a_folder_that_cannot_be_written_is_named(bench):
    bench.write("a.txt", "one\n")
    bench.results.write_text("a file")
    with pytest.raises(ClientError, match="dst: File exists"):
        bench.run()


def test_a_full_disk_ends_a_run_that_goes_on_later(bench, monkeypatch, full_disk):
    texts = fill(bench)
    create = ResultFolder.create

    @contextmanager
    def fail(self, name):
        with create(self, name) as file:
            yield file
            if name.endswith("-000001"):
                file.flush()
                full_disk()

    with monkeypatch.context() as patch:
        patch.setattr(ResultFolder, "create", fail)
        with pytest.raises(ClientError, match="No space left on device"):
            bench.run()
    bench.run()
    check(bench, texts)


def test_a_name_that_is_not_in_utf8_is_refused(bench: Bench):
    bench.write("a\udcff.txt", "one\n")
    with pytest.raises(ClientError, match="the name is not UTF-8"):
        bench.run()


def test_rows_that_cannot_be_translated_hurt_no_other(bench):
    texts = ['{"text": "one"}', "no JSON", '{"text": 5}', '{"text": "bad"}', "[]"]
    texts += ['{"text": "kill"}', '{"text": "two"}\n']
    bench.write("a.jsonl", "\n".join(texts))
    bench.handler.deadly = {"kill"}
    assert bench.run().wrong == 5
    one, broken, five, bad, array, kill, two = bench.read("a.fr.jsonl").splitlines()
    assert json.loads(one)["text_fr"] == "ONE"
    assert json.loads(two)["text_fr"] == "TWO"
    assert (broken, array) == ("no JSON", "[]")
    assert json.loads(five)["text_fr_error"] == "found a number, expected a string"
    assert json.loads(bad) == {"text": "bad", "text_fr": None, "text_fr_error": "No."}
    ended = "every worker that got this text has ended"
    assert json.loads(kill)["text_fr_error"] == ended


def test_a_broken_file_has_a_result_up_to_the_broken_place(bench):
    """A file of which nothing can be read has no result."""
    rows = "".join(f"{n},x {n}\n" for n in range(9))
    bench.write("a.csv", f'id,text\n{rows}9,"open\n')
    bench.write("a.parquet", b"no Parquet")
    bench.write("b.txt", "one\n")
    assert bench.run().wrong == 2
    assert bench.read("a.fr.csv").splitlines()[-1] == "8,x 8,X 8"
    assert any("a quote is not closed" in error for error in bench.errors)
    assert not (bench.results / "a.fr.parquet").exists()
    assert bench.read("b.fr.txt") == "ONE\n"


def test_small_files_go_to_the_model_together(bench):
    bench.most_texts = 100
    for n in range(50):
        bench.write(f"{n:02}.txt", f"file {n}\n")
    bench.run()
    assert [len(batch) for batch in bench.handler.batches] == [50]
    assert [bench.read(f"{n:02}.fr.txt") for n in range(50)] == [
        f"FILE {n}\n" for n in range(50)
    ]


def test_no_more_is_read_than_workers_take(bench: Bench, monkeypatch):
    bench.write("a.txt", "one\n" * 100_000)
    rows: list[int] = []

    def make_cell(row: int, text: str) -> Cell:
        rows.append(row)
        return Cell(row, text)

    monkeypatch.setattr(Cell, "of", make_cell)
    monkeypatch.setattr("ray_backend.bulk.job._SMALL_BYTES", 0)
    job = bench.make_job()
    chunks = job.read(find_sources([str(bench.sources)], job.kind), set())
    assert [len(next(chunks).items) for _ in range(3)] == [bench.most_texts] * 3
    assert len(rows) <= 5 * bench.most_texts


MODEL = Model(
    "captioning", "captioning", (), ("cpu",), VISION["captioning"].model_validate({})
)


class Reader(Shouting):
    """A handler that captions each frame with the number that it shows."""

    refused: int | None = None

    def answer(self, rows: Sequence[Row]) -> Outcome:
        return Outcome([self._caption(row) for row in rows], {})

    def _caption(self, row: Row) -> Result:
        frames = np.load(io.BytesIO(row.body))
        numbers = [read_number(frame) for frame in frames]
        if self.refused in numbers:
            return TaskError("out-of-memory", "No room.")
        return {"captions": [str(number) for number in numbers]}


@pytest.fixture
def videos(bench: Bench) -> Path:
    """Three videos of 20 frames, two seconds each; every frame shows a different number."""
    (bench.sources / "more").mkdir(parents=True)
    for place, name in enumerate(("a.mkv", "b.mp4", "more/c.mp4")):
        pictures = [draw_number(20 * place + n, 48, 64) for n in range(20)]
        write_video(bench.sources / name, pictures)
    return bench.sources


def make_job(store: Store) -> BulkCaptioning:
    return BulkCaptioning(
        store=store,
        reading=VideoOptions(),
        is_full_size=True,
        format=SubtitleFormat.JSONL,
        model=MODEL,
    )


def make_answerer(reader: Reader, job: BulkCaptioning) -> Answerer:
    captioner = Captioner(LocalModel(reader.answer).caption, job.reading, Sending())

    def answer(sources: Sequence[Source]) -> Sequence[VideoAnswer]:
        if reader.deadly & {source.path.name for source in sources}:
            raise Died
        return [caption_source(captioner, source) for source in sources]

    return answer


def caption_videos(bench: Bench, reader: Reader) -> RunTotals:
    job = make_job(bench.open_results())
    return bench.run(job=job, answerer=make_answerer(reader, job))


def test_a_video_that_is_cut_off_has_the_captions_up_to_there(bench, videos):
    write_numbers(videos / "b.mp4", 100, share=0.7)
    assert caption_videos(bench, Reader()).wrong == 1
    assert "b.mp4: at " in bench.errors[0]
    assert 32 < len(bench.read_records("b.jsonl")) < 100
    assert len(bench.read_records("a.jsonl")) == 20


@pytest.mark.parametrize(
    ("happens", "error"),
    [
        ({}, "invalid data found when processing input"),
        ({"refused": 25}, "No room."),
        ({"deadly": {"b.mp4"}}, "every worker that got this video has ended"),
    ],
    ids=["a broken file", "refused", "deadly"],
)
def test_a_video_without_captions_hurts_no_other(bench, videos, happens, error):
    reader = Reader()
    vars(reader).update(happens)
    if not happens:
        (videos / "b.mp4").write_bytes(b"no video")
    assert caption_videos(bench, reader).wrong == 1
    assert bench.errors == [f"{videos}/b.mp4: {error}"]
    assert bench.list_results() == ["a.jsonl", "more/c.jsonl"]
    assert {len(bench.read_records(name)) for name in bench.list_results()} == {20}


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_machine_that_does_not_see_a_video_ends_the_run(bench, videos, is_gone):
    """If the video is gone from all machines, the run continues."""
    job = make_job(bench.open_results())
    caption = make_answerer(Reader(), job)

    def answer(sources):
        if is_gone:
            sources[0].path.unlink()
            return caption(sources)
        path = videos / "elsewhere" / sources[0].path.name
        return caption([replace(sources[0], path=path)])

    if is_gone:
        bench.run(job=job, answerer=answer)
        assert bench.errors[0] == f"{videos}/a.mkv has changed meanwhile"
    else:
        with pytest.raises(ClientError, match=rf" cannot find {videos}/a\.mkv: every"):
            bench.run(job=job, answerer=answer)


def test_other_frames_are_other_options():
    job = make_job(ResultFolder(Path()))
    other = replace(job, reading=VideoOptions(Every(2)))
    assert repr(job) != repr(other)
