"""Sources and results in an object store, behind the protocol of a real one."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from clients.errors import ClientError
from clients.files import TABLES
from ray_backend.bulk import storage
from ray_backend.bulk.storage import ObjectFolder, Store, fetch, find
from tests.clients.drawing import draw_number, write_video
from tests.object_store import serve_objects
from tests.ray_backend.bulk.conftest import Bench, check, fill
from tests.ray_backend.bulk.test_job import Reader, caption_videos

BUCKET = "bulk-tests"
numbers = count()


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with serve_objects(BUCKET) as found:
        yield found


@pytest.fixture
def place(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of an empty folder in the store."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    storage._connect.cache_clear()
    yield f"s3://{BUCKET}/a folder %20/{next(numbers)}"
    storage._connect.cache_clear()


@dataclass
class ObjectBench(Bench):
    url: str = ""

    def write(self, name: str, content: str | bytes) -> Path:
        with ObjectFolder(self.locate_sources()).create(name) as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return Path(name)

    def locate_sources(self) -> str:
        return f"{self.url}/src"

    def open_results(self) -> Store:
        return ObjectFolder(f"{self.url}/dst")


@pytest.fixture
def bench(place: str, tmp_path: Path) -> ObjectBench:
    return ObjectBench(tmp_path / "src", tmp_path / "dst", url=place)


@pytest.fixture(params=["folder", "bucket"])
def any_bench(request: pytest.FixtureRequest, bench: ObjectBench) -> Bench:
    """A bench in a folder or a bucket: the guarantees of a run are the same in both."""
    is_folder = request.param == "folder"
    return Bench(bench.sources, bench.results) if is_folder else bench


@pytest.mark.parametrize("stop_after", [0, 2, 5, 6])
def test_a_run_that_was_killed_goes_on_where_it_was(any_bench, stop_after):
    texts = fill(any_bench)
    with pytest.raises(KeyboardInterrupt):
        any_bench.run(stop_after=stop_after)
    done = sum(len(batch) for batch in any_bench.handler.batches)
    any_bench.run()
    check(any_bench, texts)
    assert sum(len(batch) for batch in any_bench.handler.batches) == 21
    assert any_bench.count == 21 - done


def test_files_of_any_size_are_translated_once(any_bench):
    texts = fill(any_bench)
    totals = any_bench.run()
    check(any_bench, texts)
    assert (totals.there, any_bench.count, totals.wrong) == (0, 21, 0)
    assert any_bench.shares == sorted(any_bench.shares)
    assert any_bench.shares[-1] == pytest.approx(1.0)
    assert max(map(len, any_bench.handler.batches)) == any_bench.most_texts
    any_bench.handler.batches.clear()
    totals = any_bench.run()
    check(any_bench, texts)
    assert (totals.there, any_bench.count, totals.wrong) == (4, 0, 0)
    assert any_bench.handler.batches == []


@pytest.mark.parametrize("stop_after", [0, 1])
def test_overwriting_removes_first_so_that_a_killed_run_goes_on(any_bench, stop_after):
    texts = fill(any_bench)
    any_bench.run()
    with pytest.raises(KeyboardInterrupt):
        any_bench.run(is_overwrite=True, stop_after=stop_after)
    assert "a.fr.jsonl" not in any_bench.list_results()
    any_bench.run()
    check(any_bench, texts)


def test_overwriting_removes_all_even_if_some_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "SCHEMES", ("file",))
    bench = ObjectBench(tmp_path / "src", tmp_path / "dst", url=f"file://{tmp_path}")
    bench.results.mkdir()
    for number in range(10, 50):
        Bench.write(bench, f"{number}.txt", "one\n")
    bench.run()
    (bench.results / "10.fr.txt").unlink()
    assert bench.run(is_overwrite=True).there == 0


def test_a_source_that_changes_meanwhile_has_no_result(any_bench):
    any_bench.write("a.txt", "one\n")
    any_bench.handler.before = lambda: any_bench.write("a.txt", "other\n")
    assert any_bench.run().wrong == 1
    source = f"{any_bench.locate_sources()}/a.txt"
    assert any_bench.errors == [f"{source} has changed meanwhile"]
    assert "a.fr.txt" not in any_bench.list_results()


def test_half_an_upload_is_neither_a_source_nor_a_result(bench, environment):
    bench.write("a.txt", "one\n")
    for name in ("src/b.txt", "dst/a.fr.txt"):
        key = f"{bench.url.removeprefix('s3://')}/{name}".replace("%", "%25")
        url = f"{environment['AWS_ENDPOINT_URL']}/{key}"
        begun = requests.post(f"{url}?uploads", timeout=10).text
        upload = begun.split("<UploadId>")[1].split("<")[0]
        part = f"{url}?partNumber=1&uploadId={upload}"
        assert requests.put(part, b"half", timeout=10).ok
    bench.run()
    assert bench.list_results() == ["a.fr.txt"]
    assert bench.read("a.fr.txt") == "ONE\n"


@pytest.mark.parametrize("is_back", [False, True], ids=["into it", "out of it"])
def test_tables_go_from_a_folder_into_a_bucket_and_back(bench, tmp_path, is_back):
    table = pa.table({"id": list(range(9)), "text": [f"x {n}" for n in range(9)]})
    out = io.BytesIO()
    pq.write_table(table, out)
    folder = Bench(tmp_path / "src", tmp_path / "dst")
    here, there = (bench, folder) if is_back else (folder, bench)
    here.write("more/é %20.parquet", out.getvalue())
    assert there.run(source=here.locate_sources()).wrong == 0
    (name,) = there.list_results()
    assert name == "more/é %20.fr.parquet"
    found = there.open_results().read(name) or b""
    texts = pq.read_table(io.BytesIO(found)).column("text_fr").to_pylist()
    assert texts == [f"X {n}" for n in range(9)]


def test_videos_are_captioned_from_bucket_to_bucket(bench, tmp_path):
    write_video(tmp_path / "a.mp4", [draw_number(n, 48, 64) for n in range(20)])
    bench.write("more/a.mp4", (tmp_path / "a.mp4").read_bytes())
    bench.write("b.mp4", b"no video")
    caption_videos(bench, Reader())
    records = bench.read_records("more/a.jsonl")
    assert [record["caption"] for record in records] == [str(n) for n in range(20)]
    assert {record["video"] for record in records} == {f"{bench.url}/src/more/a.mp4"}
    (error,) = bench.errors
    assert error.startswith(f"{bench.url}/src/b.mp4: ")


def test_large_objects_are_read_piece_by_piece(bench, monkeypatch):
    monkeypatch.setattr(storage, "_READ_BYTES", 1 << 20)
    line = "a" * 999
    bench.most_texts = 1000
    bench.write("a.txt", f"{line}\n" * 6000)
    bench.run()
    assert bench.read("a.fr.txt") == f"{line.upper()}\n" * 6000
    assert bench.list_results() == ["a.fr.txt"]


def test_an_object_of_its_own_and_what_counts_in_a_folder(bench):
    for name in ("a.txt", "more/b.txt", "more/.c.txt", "more/d.mp4"):
        bench.write(name, "one\n")
    url = bench.locate_sources()
    found = find(f"{url}/", TABLES)
    assert [source.relative.as_posix() for source in found] == ["a.txt", "more/b.txt"]
    (one,) = find(f"{url}/more/b.txt", TABLES)
    assert (one.relative.as_posix(), one.name) == ("b.txt", f"{url}/more/b.txt")


def test_nothing_is_left_of_a_copy(bench):
    bench.write("a.txt", "one\n")
    (source,) = find(bench.locate_sources(), TABLES)
    with fetch(source) as copy:
        assert copy.path.read_text() == "one\n"
        assert not copy.has_changed()
        assert copy.path.resolve().name.endswith(" (deleted)")
    assert not copy.path.exists()


def test_a_source_that_is_gone_hurts_no_other(bench):
    bench.write("a.txt", "one\n")
    bench.write("b.txt", "two\n")
    bucket = ObjectFolder(bench.locate_sources())
    bench.handler.before = lambda: bucket.remove(["a.txt"])
    assert bench.run().wrong == 1
    assert bench.errors == [f"{bench.url}/src/a.txt: it no longer exists"]
    assert bench.read("b.fr.txt") == "TWO\n"


def test_the_last_of_two_runs_goes_on(bench):
    texts = fill(bench)

    def begin() -> None:
        bench.handler.before = lambda: None
        bench.run()

    bench.handler.before = begin
    with pytest.raises(ClientError, match="dst: another run is writing there"):
        bench.run()
    check(bench, texts)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://no-such-bucket/x", "The specified bucket does not exist"),
        (
            f"s3://{BUCKET}/empty",
            "no object, and no folder with a file of texts (.csv .jsonl .parquet .tsv .txt)",
        ),
        (
            "ftp://host/x",
            "expected a folder, or a URL such as s3://bucket/folder that begins with s3, gs, "
            "az, abfs, abfss",
        ),
    ],
    ids=["no bucket", "nothing there", "another protocol"],
)
def test_what_is_no_place_is_said_in_one_line(place, url, said):
    with pytest.raises(ClientError) as caught:
        find(url, TABLES)
    assert str(caught.value) == f"{url}: {said}"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "http://127.0.0.1:1/"),
        ({"AWS_SECRET_ACCESS_KEY": None}, "Missing SecretAccessKey"),
    ],
    ids=["no answer", "half of the credentials"],
)
def test_a_store_that_cannot_be_asked_is_said_soon(place, monkeypatch, changed, said):
    for name, value in changed.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(ClientError) as caught:
        find(place, TABLES)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{place}: ")
    assert said in line
    assert "the-secret" not in line
