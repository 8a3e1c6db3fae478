"""Jobs of texts that are stopped between any two answers, texts that cannot be translated, and
stacks that cannot translate."""

import io
import json
import re
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clients.bulk import run_job
from clients.errors import OutputError, ServerError
from clients.files import TABLES, find_sources, plan_translations
from clients.server import ApiClient, RetryPolicy, read_events
from clients.tables import TextReply, name_columns, open_table
from clients.translations import (
    LONGEST_PIECE,
    MAX_TEXTS,
    TranslationJob,
    TranslationOptions,
    Translator,
    cut,
)
from tests.clients.conftest import Stop, check_stops, read_files, run
from tests.fake_api import FakeApi, blame, blame_text, write_event

TEXTS = [f"text {number}" for number in range(8)]
TRANSLATED = [TextReply(f"[{text}]") for text in TEXTS]


@pytest.fixture
def translator(stack: FakeApi) -> Iterator[Translator]:
    with ApiClient(stack.url, RetryPolicy(attempts=6, timeout_s=30)) as server:
        yield Translator(server, TranslationOptions("fr", "en"))


def test_texts_are_translated_in_one_request(stack, translator):
    assert translator.translate(TEXTS) == TRANSLATED
    assert stack.bodies == [
        {"src_text": TEXTS, "src_lang": "en", "tgt_lang": "fr", "format": "text"}
    ]


FIRST = write_event("text", index=0, translated="Où ?")
SECOND = write_event("text", index=0, translated="Où ? Là.")
DONE = write_event("done", translated=["Où ? Là.\n"], warnings=["src_text[0]: hm"])
ALIVE = b": still at work\n\n"


def test_events_are_read_wherever_they_are_cut():
    content = FIRST + ALIVE + DONE
    expected = [
        (n, json.loads(d))
        for n, d in re.findall(r"event: (\w+)\ndata: (.*)", content.decode())
    ]
    for place in range(len(content)):
        assert [*read_events([content[:place], content[place:]])] == expected


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ([], ["Où ?", " Là.", "\n"]),
        ([[FIRST], [FIRST, SECOND, b""]], ["Où ?", "", " Là.", "", "", "\n"]),
    ],
    ids=["in one answer", "after two that break off"],
)
def test_a_translation_is_written_once_while_it_is_made(
    stack, translator, broken, expected
):
    stack.streams += [*broken, [FIRST, ALIVE, SECOND, DONE, b""]]
    written: list[str] = []
    assert translator.follow("Where? There.\n", written.append) == ["src_text[0]: hm"]
    assert written == expected
    assert stack.bodies[0]["src_text"] == ["Where? There.\n"]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (write_event("error", detail="Too late.", status=504), "/translate: Too late."),
        (write_event("text", index=0, translated="Ici."), "a different translation"),
        (write_event("error", detail="No status."), "the answer is not JSON"),
        (write_event("done", translated=None), "the answer has no translations"),
        (write_event("text") + write_event("done", translated=[]), "expected 1 trans"),
    ],
    ids=["an error", "another answer", "no problem", "no translation", "no text"],
)
def test_what_cannot_be_finished_is_an_error(stack, translator, second, reason):
    stack.streams.append([FIRST, second, b""])
    with pytest.raises(ServerError, match=reason):
        translator.follow("Where? There.\n", lambda _: None)


@pytest.mark.parametrize("status", [400, 413, 422, 500, 503, 504])
def test_a_text_that_fails_is_an_error_of_its_own(stack, translator, status):
    stack.judge = blame_text("text 5", status)
    failed = TextReply(None, error=f"{status} because of {status}")
    assert translator.translate(TEXTS) == [*TRANSLATED[:5], failed, *TRANSLATED[6:]]


@pytest.mark.parametrize("status", [429, 500, 503, 504])
def test_what_passes_is_no_error(stack, translator, status):
    stack.failures.extend([blame(status)] * 2)
    assert translator.translate(["text 0"]) == [TRANSLATED[0]]


def test_busy_halves_are_waited_for(stack, translator):
    stack.failures.extend(map(blame, [500, *[429] * 5]))
    assert translator.translate(TEXTS) == TRANSLATED


@pytest.mark.parametrize(
    ("status", "is_ready"),
    [(401, True), (403, True), (404, True), (429, True), (503, False), (500, False)],
)
def test_a_stack_that_cannot_translate_ends_it(stack, translator, status, is_ready):
    stack.is_ready = is_ready
    stack.failures.extend([blame(status)] * 100)
    said = f"/translate: {status} src_text.* because of {status}"
    with pytest.raises(ServerError, match=said):
        translator.translate(["text 0"])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"translated": [None]}, "the answer has no translations"),
        ([], "the answer has no translations"),
        ({"translated": ["a", "b"]}, "expected 1 translations"),
    ],
)
def test_an_answer_without_the_translations_ends_it(stack, translator, answer, reason):
    stack.answer = answer
    with pytest.raises(ServerError, match=f"/translate: {reason}"):
        translator.translate(["a"])


def test_a_warning_comes_to_its_text(stack, translator):
    stack.warn = lambda text: f"about {text}" if text == "text 3" else None
    warnings = [reply.warning for reply in translator.translate(TEXTS)]
    assert warnings == [None, None, None, "about text 3", None, None, None, None]
    stack.answer = {"translated": ["a"], "warnings": ["src_text[1]: about nothing"]}
    assert translator.translate(["b"]) == [TextReply("a")]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [""]),
        ("0123456789", ["0123456789"]),
        ("line\nline\nli", ["line\n", "line\nli"]),
        ("a b. c d. e f", ["a b. ", "c d. e f"]),
        ("五字。五字。五字。五字", ["五字。五字。", "五字。五字"]),
        ("a b?!) c d. e f", ["a b?!) ", "c d. e f"]),
        ("aaa bbb ccc", ["aaa ", "bbb ccc"]),
        ("0123456789abcdef", ["01234567", "89abcdef"]),
    ],
    ids="empty short lines sentences no-spaces marks words nothing".split(),
)
def test_a_long_text_is_cut_where_it_harms_least(text, pieces):
    assert cut(text, 10) == pieces


def test_a_line_of_dots_is_cut_in_no_time():
    began = time.process_time()
    assert len(cut("." * 32_000, 16_000)) == 2
    assert time.process_time() - began < 1


def test_a_piece_that_fails_is_the_error_of_its_text(stack, translator):
    text = ("x" * (LONGEST_PIECE - 1) + "\n") * 2
    stack.judge = blame_text("x" * (LONGEST_PIECE - 1) + "\n", 413)
    assert translator.translate([text]) == [TextReply(None, error="413 because of 413")]


def test_markup_is_not_cut(stack, translator):
    text = "<p>a</p>\n" * LONGEST_PIECE
    html = TranslationOptions("fr", format="html")
    Translator(translator.server, html).translate([text])
    assert stack.texts == [text]


COUNT = 3 * MAX_TEXTS
WANTED = TranslationOptions("fr", "en")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of each format, each with different texts."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    (data / "more").mkdir(parents=True)
    lines = [f"line {number}" if number % 7 else "" for number in range(COUNT)]
    (data / "a.txt").write_text("\n".join(lines))
    rows = [json.dumps({"id": n, "text": f"record {n}"}) for n in range(COUNT)]
    (data / "b.jsonl").write_text("\n".join([*rows, '{"text": 5}', "no JSON"]))
    fields = "".join(f'{n},"field\n{n}"\r\n' for n in range(COUNT))
    (data / "c.csv").write_bytes(b"id,text\r\n" + fields.encode())
    (data / "more/d.tsv").write_text("text\nbad\ngood\n")
    texts = pa.array([f"cell {n}" if n % 3 else None for n in range(COUNT)])
    table = pa.table({"text": texts})
    pq.write_table(table, data / "more/e.parquet", row_group_size=50)
    return tmp_path


def make_job(
    server: ApiClient,
    files: list[str],
    output: str | None = None,
    *,
    wanted: TranslationOptions = WANTED,
    columns: list[str] | None = None,
) -> TranslationJob:
    found = find_sources(files, TABLES)
    sources, plan = plan_translations(found, output, wanted.target)
    named = name_columns(columns or ["text"], [], wanted.target)
    return TranslationJob(
        sources=sources,
        plan=plan,
        tables=[open_table(source, named) for source in sources],
        translator=Translator(server, wanted),
        requests_in_flight=2,
    )


def test_every_format_is_translated_row_by_row(stack, server, folder):
    stack.judge = blame_text("bad", 422)
    job = make_job(server, ["data"])
    outcome, events = run(job)
    found = read_files(job)
    lines = found["a.fr.txt"].decode().split("\n")
    assert lines == [f"[line {n}]" if n % 7 else "" for n in range(COUNT)]
    assert found["c.fr.csv"].startswith(
        b'id,text,text_fr\r\n0,"field\n0","[field\n0]"\r\n1,'
    )
    assert found["d.fr.tsv"] == (
        b"text\ttext_fr\ttext_fr_error\nbad\t\t422 because of 422\ngood\t[good]\t\n"
    )
    table = pq.read_table(io.BytesIO(found["e.fr.parquet"]))
    assert table["text_fr"].to_pylist() == [
        f"[cell {n}]" if n % 3 else None for n in range(COUNT)
    ]
    assert outcome.errors == [
        f"data/b.jsonl: line {COUNT + 1}: found a number, expected a string",
        f"data/b.jsonl: line {COUNT + 2}: not JSON, expected an object",
        "data/more/d.tsv: line 2: 422 because of 422",
    ]
    shares = [share for _, share in events]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert not job.plan.journal.exists()


def test_what_needs_no_translation_is_not_sent(stack, server, folder):
    run(make_job(server, ["data/a.txt", "data/more/e.parquet"]))
    assert len(stack.texts) == sum(bool(n % 7) + bool(n % 3) for n in range(COUNT))
    assert all(text.strip() for text in stack.texts)
    Path("empty.txt").write_text("\n" * 100_000)
    stack.asked.clear()
    job = make_job(server, ["empty.txt"])
    run(job)
    assert stack.bodies == []
    assert read_files(job) == {"empty.fr.txt": b"\n" * 100_000}


def test_a_job_that_is_stopped_anywhere_has_the_same_result(stack, server, folder):
    stack.judge = blame_text("bad", 422)
    check_stops(lambda name: make_job(server, ["data"], f"{name}/"))


def test_another_job_does_not_go_on_with_the_journal(server, folder):
    with pytest.raises(Stop):
        run(make_job(server, ["data"], "out/"), 3)
    before = Path("out.part").read_bytes()
    for options in (("de", "en"), ("fr",), ("fr", "en", "html")):
        wanted = TranslationOptions(*options)
        with pytest.raises(OutputError, match=r"out.part was started with other"):
            run(make_job(server, ["data"], "out/", wanted=wanted))
    with pytest.raises(OutputError, match=r"\(tables\)"):
        run(make_job(server, ["data"], "out/", columns=["id"]))
    Path("data/a.txt").write_text("other")
    with pytest.raises(OutputError, match=r"\(files\)"):
        run(make_job(server, ["data"], "out/"))
    assert Path("out.part").read_bytes() == before


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_file_that_changes_meanwhile_is_told(server, folder, is_gone):
    path = Path("data/a.txt")

    def change(*_: object) -> None:
        path.unlink(missing_ok=True)
        if not is_gone:
            path.write_text("other\n")

    outcome = run_job(make_job(server, ["data/a.txt", "data/more/d.tsv"]), change)
    assert outcome.errors == ["data/a.txt has changed meanwhile"]
    assert not Path("data/a.fr.txt").exists()
    assert Path("data/more/d.fr.tsv").exists()


@pytest.mark.parametrize("broken", [0, 1], ids=["texts", "other column"])
def test_a_broken_parquet_file_is_written_up_to_there(server, folder, broken):
    path = Path("data/more/e.parquet")
    texts = pa.array([str(number) for number in range(2000)])
    options = {"row_group_size": 1000, "use_dictionary": False, "compression": "gzip"}
    pq.write_table(pa.table({"text": texts, "other": texts}), path, **options)
    column = pq.ParquetFile(path).metadata.row_group(1).column(broken)
    content = bytearray(path.read_bytes())
    start = column.data_page_offset + 40
    content[start : start + 200] = b"\0" * 200
    path.write_bytes(content)
    job = make_job(server, [str(path), "data/a.txt"])
    outcome, _ = run(job)
    (error,) = outcome.errors
    assert error.startswith("data/more/e.parquet: ")
    assert Path("data/a.fr.txt").exists()
    found = pq.read_table("data/more/e.fr.parquet")
    assert found["text_fr"].to_pylist() == [f"[{number}]" for number in range(1000)]


def test_a_broken_file_is_told_and_the_others_are_translated(server, folder):
    Path("data/c.csv").write_text('text\ngood\n"bad\n')
    Path("data/b.jsonl").write_text('{"body": "a"}')
    job = make_job(server, ["data"])
    Path("data/a.txt").unlink()
    outcome, _ = run(job)
    assert outcome.errors == [
        "data/a.txt: No such file or directory",
        "data/b.jsonl: no line has text; the first has body",
        "data/c.csv: line 3: a quote is not closed (--no-quotes for a .tsv whose quotes "
        "are plain characters)",
    ]
    found = read_files(job)
    assert "b.fr.jsonl" not in found
    assert found["c.fr.csv"] == b"text,text_fr\ngood,[good]\n"
    assert "e.fr.parquet" in found


def test_many_errors_and_warnings_are_counted_and_the_first_named(
    stack, server, folder
):
    Path("a.jsonl").write_text('{"text": 1}\n' * 100)
    stack.warn = lambda text: "it repeats itself" if text.endswith("0") else None
    outcome, _ = run(make_job(server, ["data/a.txt", "a.jsonl"]))
    assert len(outcome.errors) == 11
    assert outcome.errors[0].startswith("a.jsonl: line 1: found a number")
    assert outcome.errors[-1] == "a.jsonl: 90 more texts have no translation"
    count = sum(1 for n in range(COUNT) if n % 7 and n % 10 == 0)
    assert outcome.warnings == [
        f"data/a.txt: doubtful translations: {count}, the first in line 11: it repeats "
        "itself"
    ]


@pytest.mark.slow
def test_a_file_of_any_size_takes_little_memory(server, folder):
    row = json.dumps({"more": "x" * 20_000, "text": None})
    Path("a.jsonl").write_text(f"{row}\n" * 3000)
    job = make_job(server, ["a.jsonl"])
    tracemalloc.start()
    try:
        run(job)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert Path("a.fr.jsonl").stat().st_size > 60_000_000
    assert peak_bytes < 4_000_000


def test_a_full_disk_is_told_and_the_same_job_goes_on(
    server, folder, monkeypatch, full_disk
):
    job = make_job(server, ["data/a.txt"])
    with monkeypatch.context() as patch:
        patch.setattr(type(job.tables[0]), "write", full_disk)
        with pytest.raises(OutputError, match="data/a.fr.txt: No space left on device"):
            run(job)
    assert not Path("data/.a.fr.txt.draft").exists()
    run(make_job(server, ["data/a.txt"]))
    assert Path("data/a.fr.txt").exists()
