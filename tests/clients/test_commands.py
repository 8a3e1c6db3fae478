"""`python -m clients` with its commands, as a user runs, stops and repeats them."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from clients.__main__ import _write_output
from clients.errors import OutputError
from clients.translations import MAX_TEXTS
from tests.clients.drawing import write_numbers
from tests.clients.processes import run, run_process, start
from tests.scripted_server import LIMIT_S

#: The number of texts in forty requests.
COUNT = 40 * MAX_TEXTS
CAPTION = ("caption", "a.mp4", "b.mkv", "-o", "out.jsonl")
TRANSLATE = ("translate", "a.csv", "--column", "text", "--to", "fr", "--from", "en")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two videos, a table that needs forty requests, and three documents."""
    write_numbers(tmp_path / "a.mp4", 60)
    write_numbers(tmp_path / "b.mkv", 30, codec="mpeg4")
    rows = [f"{number},text {number}\r\n" for number in range(COUNT)]
    (tmp_path / "a.csv").write_text("id,text\r\n" + "".join(rows), newline="")
    (tmp_path / "in/b").mkdir(parents=True)
    for name in ("in/a.docx", "in/b/c.srt", "in/d.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_every_option_reaches_the_stack(stack, folder, monkeypatch):
    monkeypatch.setenv("BABELGATE_CLIENT_KEY", "secret")
    (folder / "a.tsv").write_text('x\ty\n"a\tb\n')
    command = """translate a.tsv --to de --column x --column y --into p --into q
        --format html --glossary terms --from en,fr --no-quotes -o new/b.tsv
        --requests-in-flight 2 --attempts 1 --timeout-s 9"""
    assert run(folder, stack.url, *command.split()) == (0, "")
    assert (folder / "new/b.tsv").read_text() == 'x\ty\tp\tq\n"a\tb\t["a]\t[b]\n'
    assert stack.bodies == [
        {
            "src_text": ['"a', "b"],
            "tgt_lang": "de",
            "format": "html",
            "languages": ["en", "fr"],
            "glossary": "terms",
        }
    ]
    assert set(stack.keys) == {"Bearer secret"}


def test_a_time_that_no_clock_can_wait_is_refused(stack, folder):
    code, said = run(folder, stack.url, *TRANSLATE, "--timeout-s", "inf")
    assert (code, "86400" in said) == (2, True)


def test_an_output_that_takes_no_more_is_named(monkeypatch):
    with suppress(OSError), open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(OutputError, match="standard output: No space left"):
            _write_output("a")


def test_ctrl_c_ends_it_at_once_and_says_how_to_go_on(stack, folder):
    """Even if the system delivers the signal to a thread that waits for an answer."""
    stack.free_requests = 10
    stack.is_open.clear()
    process = start(folder, stack.url, *TRANSLATE)
    stack.wait_until(lambda: len(stack.bodies) >= 26)
    *_, last = psutil.Process(process.pid).threads()
    os.kill(last.id, signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert said.strip() == "Stopped. Rerun the command to resume (a.fr.csv.part)."
    stack.is_open.set()
    assert run(folder, stack.url, *TRANSLATE) == (0, "")
    rows = [f"{number},text {number},[text {number}]\r\n" for number in range(COUNT)]
    expected = "id,text,text_fr\r\n" + "".join(rows)
    assert (folder / "a.fr.csv").read_bytes() == expected.encode()


def test_ctrl_c_ends_an_upload_that_waits_for_another_attempt(stack, folder):
    stack.refused = {"d.txt": 503}
    process = start(folder, stack.url, "document", "in/d.txt", "--to", "fr")
    stack.wait_until(lambda: stack.requests["POST"] >= 2)
    *_, last = psutil.Process(process.pid).threads()
    os.kill(last.id, signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("caption a.mp4 -o x.jsonl --every 2m", "--every 2m: expected"),
        ("caption a.mp4 -o in/a.docx --format srt", "in/a.docx already exists"),
        ("translate a.csv --to fr", "a.csv: name its column of texts with --column"),
        (
            "translate a.csv --to fr --column :x:",
            "a.csv has no column :x:; found id, t",
        ),
        ("translate a.csv --to xx --column text", "422 No xx here."),
        ("translate a.csv --to x/y --column text", "422 No x/y here."),
        (f"translate a.csv --to {'x' * 255} --column text", "File name too long"),
        ("translate a.csv --to fr --column text --key ключ", "--key: expected print"),
        (f"{' '.join(TRANSLATE)} -o {'x' * 300}/", "File name too long"),
        (f"translate a.csv --to {'x' * 300} --column text", "File name too long"),
        ("document in --to fr -o a.txt", "3 files cannot be written to one; give a "),
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
    assert stack.documents == []


def test_the_name_of_a_video_need_not_be_utf_8(stack, folder):
    video = os.fsdecode(b"\xe9.mp4")
    (folder / "a.mp4").rename(folder / video)
    assert run(folder, stack.url, "caption", video, "-o", "out.jsonl") == (0, "")
    first, *_ = (folder / "out.jsonl").read_text("ascii").splitlines()
    assert json.loads(first)["video"] == video


@pytest.mark.parametrize(
    ("module", "command", "said"),
    [
        (
            "av",
            CAPTION,
            "Reading videos requires PyAV: `make .venv/ready-captioner` installs it.\n",
        ),
        (
            "pyarrow",
            ("translate", "a.parquet", "--to", "fr", "--column", "text"),
            "Reading Parquet requires PyArrow: `make .venv/ready-parquet` installs it.\n",
        ),
        ("av", TRANSLATE, ""),
    ],
)
def test_without_an_extra_it_says_what_to_install(stack, folder, module, command, said):
    (folder / f"{module}.py").write_text("raise ModuleNotFoundError('No such module')")
    (folder / "a.parquet").write_bytes(b"PAR1")
    assert run_process(folder, stack.url, *command) == (int(bool(said)), said)
