"""`python -m clients translate` and `document` as processes, that are killed and started
again.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from clients.translator import MAX_TEXTS
from tests.clients.processes import run, run_process, start
from tests.fake_api import MARK
from tests.scripted_server import LIMIT_S

REQUESTS = 40
TRANSLATE = ("translate", "a.csv", "--column", "text", "--to", "fr", "--from", "en")
DOCUMENT = ("document", "in", "--to", "de", "-o", "out")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table that takes some requests, and three documents."""
    rows = [f"{number},text {number}\r\n" for number in range(REQUESTS * MAX_TEXTS)]
    (tmp_path / "a.csv").write_bytes(("id,text\r\n" + "".join(rows)).encode())
    (tmp_path / "in/b").mkdir(parents=True)
    for name in ("in/a.docx", "in/b/c.srt", "in/d.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


def expect(count: int = REQUESTS * MAX_TEXTS) -> bytes:
    rows = [f"{number},text {number},[text {number}]\r\n" for number in range(count)]
    return ("id,text,text_fr\r\n" + "".join(rows)).encode()


def test_a_table_is_translated_and_nothing_is_said(stack, folder):
    assert run(folder, stack.url, *TRANSLATE) == (0, "")
    assert (folder / "a.fr.csv").read_bytes() == expect()
    assert sorted(path.name for path in folder.iterdir()) == ["a.csv", "a.fr.csv", "in"]


def test_every_option_reaches_the_stack(stack, folder, monkeypatch):
    monkeypatch.setenv("BABELGATE_CLIENT_KEY", "secret")
    (folder / "a.tsv").write_text('x\ty\n"a\tb\n')
    options = "--column x --column y --into p --into q --format html --glossary terms"
    more = "--no-quotes -o new/b.tsv --requests-in-flight 2 --attempts 1 --timeout-s 9"
    command = ("translate", "a.tsv", "--to", "de", *options.split(), *more.split())
    assert run(folder, stack.url, *command) == (0, "")
    assert (folder / "new/b.tsv").read_text() == 'x\ty\tp\tq\n"a\tb\t["a]\t[b]\n'
    assert stack.bodies == [
        {
            "src_text": ['"a', "b"],
            "tgt_lang": "de",
            "format": "html",
            "glossary": "terms",
        }
    ]
    assert set(stack.keys) == {"Bearer secret"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "answered",
    [
        17,
        pytest.param(0, marks=pytest.mark.faults),
        pytest.param(REQUESTS - 1, marks=pytest.mark.faults),
    ],
)
def test_a_run_that_was_killed_goes_on_with_the_same_result(stack, folder, answered):
    stack.free_requests = answered
    stack.is_open.clear()
    options = (*TRANSLATE, "--requests-in-flight", "3")
    killed = start(folder, stack.url, *options)
    # One that waits before answered ones may keep the other senders from sending more.
    stack.wait_until(lambda: len(stack.bodies) > answered)
    killed.kill()
    killed.communicate(timeout=LIMIT_S)
    assert not (folder / "a.fr.csv").exists()
    stack.is_open.set()
    stack.asked.clear()
    assert run(folder, stack.url, *options) == (0, "")
    # Only requests that were under way or waited for their turn are sent again.
    left = REQUESTS - answered
    assert left <= len(stack.bodies) <= left + 2 * 3 + 2
    assert (folder / "a.fr.csv").read_bytes() == expect()
    assert not list(folder.glob("*.part"))


def test_ctrl_c_ends_it_at_once_and_says_how_to_go_on(stack, folder):
    stack.free_requests = 10
    stack.is_open.clear()
    process = start(folder, stack.url, *TRANSLATE)
    stack.wait_until(lambda: len(stack.bodies) >= 26)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert said.strip() == "Stopped, the same command goes on (a.fr.csv.part)."
    stack.is_open.set()
    assert run(folder, stack.url, *TRANSLATE) == (0, "")
    assert (folder / "a.fr.csv").read_bytes() == expect()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("translate b.csv --to fr", "b.csv: no such file or folder"),
        ("translate in/a.docx --to fr", "in/a.docx: expected a file that ends in .csv"),
        ("translate a.csv --to fr", "a.csv: name its column of texts with --column"),
        ("translate a.csv --to fr --column x", "a.csv has no column x: id, text"),
        (
            "translate a.csv --to fr --column text -o a.json",
            "expected a name that ends in",
        ),
        ("translate a.csv --to fr --column text -o a.csv", "would replace its source"),
        ("translate a.csv --to xx --column text", "422 No xx here."),
        ("document a.zip --to fr", "a.zip: no such file or folder"),
        ("document in --to fr -o a.txt", "3 files do not go into one; give a folder"),
        ("document in --to xx", "422 No xx here."),
    ],
)
def test_an_error_is_one_line_and_nothing_is_written(stack, folder, arguments, reason):
    before = sorted(folder.rglob("*"))
    code, said = run(folder, stack.url, *arguments.split())
    assert code == 1
    assert reason in said
    assert len(said.splitlines()) == 1
    assert sorted(folder.rglob("*")) == before


def test_without_pyarrow_it_says_what_to_install(stack, folder):
    (folder / "pyarrow.py").write_text("raise ModuleNotFoundError('No module pyarrow')")
    (folder / "a.parquet").write_bytes(b"PAR1")
    command = ("translate", "a.parquet", "--to", "fr", "--column", "text")
    assert run_process(folder, stack.url, *command) == (
        1,
        "Parquet files are read by PyArrow: `make .venv/ready-parquet` installs it.\n",
    )


def test_translations_need_no_pyav(stack, folder):
    (folder / "av.py").write_text("raise ModuleNotFoundError('No module named av')")
    assert run_process(folder, stack.url, *TRANSLATE) == (0, "")


def test_documents_are_translated_and_nothing_is_said(stack, folder):
    assert run(folder, stack.url, *DOCUMENT) == (0, "")
    for source, target in [
        ("in/a.docx", "out/a.de.docx"),
        ("in/b/c.srt", "out/b/c.de.srt"),
        ("in/d.txt", "out/d.de.txt"),
    ]:
        assert (folder / target).read_bytes() == MARK + source.encode()
    assert all(document.is_deleted for document in stack.documents)
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_documents_that_are_under_way_are_not_uploaded_again(stack, folder, kind):
    stack.is_open.clear()
    process = start(folder, stack.url, *DOCUMENT)
    journal = folder / "out.part"
    stack.wait_until(lambda: len(stack.documents) == 3 and count_lines(journal) == 4)
    process.send_signal(kind)
    _, said = process.communicate(timeout=LIMIT_S)
    if kind is signal.SIGINT:
        assert process.returncode == 130
        assert said == "Stopped, the same command goes on (out.part).\n"
    stack.is_open.set()
    assert run(folder, stack.url, *DOCUMENT) == (0, "")
    assert stack.requests["POST"] == 3
    assert len(list((folder / "out").rglob("*.*"))) == 3
    assert all(document.is_deleted for document in stack.documents)


def count_lines(path: Path) -> int:
    """The journal's first line and one for each upload."""
    return len(path.read_bytes().splitlines()) if path.exists() else 0
