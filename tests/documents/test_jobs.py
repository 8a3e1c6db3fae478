"""Jobs survive the end of their program, and each document is translated exactly once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import psutil
import pytest

from contract import variables
from deploy.stack import ROOT
from documents.jobs import Jobs
from documents.storage import DocumentFolder, State
from tests.documents.conftest import Add, list_orders, take_step
from tests.e2e.real_stack import wait_until
from tests.fake_api import Failure

pytestmark = pytest.mark.slow

MANY = [f"text {number}" for number in range(300)]
LIMIT_S = 60


@pytest.fixture
def add_text(add: Add) -> Add:
    """Add a document in a real format: the program does not have the line format."""
    return partial(add, name="a.txt")


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(gateway, storage, tmp_path) -> Iterator[Start]:
    """Start the program; separate run directories stand for separate machines."""
    programs: list[subprocess.Popen[bytes]] = []

    def start(
        run: str = "run", command: Sequence[str] = ("-m", "documents"), **more: str
    ) -> subprocess.Popen[bytes]:
        given = {
            variables.RUN_DIR: str(tmp_path / run),
            variables.DOCUMENTS: str(storage.folder),
            variables.GATEWAY_BIND: gateway.address,
        }
        environment = {variable.name: value for variable, value in given.items()}
        with (tmp_path / f"{run}.log").open("ab") as log:
            program = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=os.environ | environment | more,
                stderr=log,
            )
        programs.append(program)
        return program

    yield start
    for program in programs:
        program.terminate()
        assert program.wait(LIMIT_S) in (0, 1, -signal.SIGKILL)


def wait_for(documents: list[DocumentFolder], status: str = "done") -> None:
    wait_until(lambda: all(d.read_state().is_over for d in documents), limit_s=LIMIT_S)
    assert {document.read_state().status for document in documents} == {status}


def check_results(documents: list[DocumentFolder], texts: list[str] = MANY) -> None:
    for document in documents:
        lines = document.result.read_text().splitlines()
        assert lines == [text.upper() for text in texts]


def test_documents_are_translated_and_their_jobs_end(
    add_text, start, storage, tmp_path
):
    secret = "what nobody else may read"
    damaged = add_text(content=b"\xff\xfe\xff", name="a.po")
    documents = [add_text(secret, *MANY[:5]) for _ in range(6)]
    program = start()
    wait_for(documents)
    check_results(documents, [secret, *MANY[:5]])
    wait_for([damaged], "failed")
    wait_until(lambda: not storage.list_jobs(), limit_s=LIMIT_S)
    stop(program)
    kept = (tmp_path / "run.log").read_bytes()
    assert secret.encode() not in kept
    assert secret.upper().encode() not in kept


def kill(program: subprocess.Popen[bytes]) -> None:
    """Kill a program, and check that its workers end with it."""
    children = psutil.Process(program.pid).children(recursive=True)
    program.kill()
    program.wait(LIMIT_S)
    _, alive = psutil.wait_procs(children, LIMIT_S)
    assert alive == []


def stop(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    assert program.wait(LIMIT_S) == 0


def test_what_is_old_goes_and_what_nobody_can_read_stops_no_document(
    add_text, start, storage
):
    bad, good, old = add_text("one"), add_text("two"), add_text("three")
    (bad.folder / "document.json").write_text("")
    (storage.folder / "kept" / "a file").touch()
    (storage.folder / "unfinished" / "a~b~c").mkdir()
    old.write_state(State(status="done", expires_at=time.time() - 1))
    start(**{variables.DOCUMENTS_KEPT_S.name: "1000"})
    wait_for([good])
    expires_at = good.read_state().expires_at
    assert expires_at is not None
    assert 0 < expires_at - time.time() <= 1000
    wait_until(lambda: not old.folder.exists(), limit_s=LIMIT_S)
    aside = storage.folder / "aside"
    wait_until(lambda: len(list(aside.glob("*"))) == 2, limit_s=LIMIT_S)
    assert list_orders(storage, good.order.owner) == [good.order]


def test_a_look_that_fails_keeps_no_other_from_its_turn(
    storage, asking, monkeypatch, caplog
):
    jobs = Jobs(storage, asking, take_step, kept_s=60, at_once=1)
    turns: list[str] = []

    def make(look: str) -> Callable[[Jobs], None]:
        def fail(_: Jobs) -> None:
            turns.append(look)
            raise TypeError("what a document says")

        return fail

    looks = ["_sweep", "_walk"]
    for look in looks:
        monkeypatch.setattr(Jobs, look, make(look))
    monkeypatch.setattr(Jobs, "_scan", lambda jobs: turns.append("scanned"))

    def beat() -> None:
        if turns.count("scanned") == 2 or len(turns) > 20:
            jobs.stop()

    jobs.run(beat)
    assert turns[:5] == [*looks, "scanned", "_walk", "scanned"]
    assert "what a document says" not in caplog.text


HANGING = """
import re
from documents import __main__ as program, jobs
def hang(_):
    program._LONGEST_TURN_S = 1
    program._beat()
    re.match(r"(?:a|a)*b", "a" * 60)
jobs.Jobs._scan = hang
program.main()
"""


def test_a_program_that_hangs_says_where_and_ends(start, tmp_path):
    program = start(command=("-c", HANGING))
    wait_until(lambda: program.poll() == 1, limit_s=LIMIT_S)
    assert "line 7 in hang" in (tmp_path / "run.log").read_text()


@pytest.mark.faults
def test_another_machine_goes_on_for_one_that_is_gone(add_text, start, gateway):
    documents = [add_text(*MANY) for _ in range(3)]
    gateway.judge = lambda _: Failure(503) if len(gateway.asked) > 2 else None
    first = start("first")
    gateway.wait_until(lambda: len(gateway.asked) > 2)
    second = start("second")
    kill(first)
    gateway.judge = lambda _: None
    wait_for(documents)
    check_results(documents)
    stop(second)


def test_nobody_waits_for_a_client_with_many_documents(
    add_text, start, storage, gateway
):
    gateway.judge = lambda texts: None if texts == ["one"] else Failure(503)
    many = [add_text(*MANY) for _ in range(10)]
    start()
    gateway.wait_until(lambda: len(gateway.asked) > 0)
    wait_for([add_text("one", caller="another")])
    states = [document.read_state().status for document in many]
    assert (states.count("translating"), "done" in states) == (2, False)
    # A deleted document has no job.
    for document in many:
        storage.delete(document)
    wait_until(lambda: not storage.list_jobs(), limit_s=LIMIT_S)
    assert not any(document.folder.exists() for document in many)


def test_a_folder_that_cannot_be_used_is_told(start, tmp_path):
    (tmp_path / "file").touch()
    program = start(**{variables.DOCUMENTS.name: str(tmp_path / "file")})
    wait_until(lambda: program.poll() == 1, limit_s=LIMIT_S)
    said = (tmp_path / "run.log").read_text()
    assert "the folder cannot be used: [Errno 17] File exists" in said
    assert "Traceback" not in said


def test_a_wrong_setting_is_named(start, tmp_path):
    program = start(**{variables.DOCUMENTS_AT_ONCE.name: "none"})
    wait_until(lambda: program.poll() == 1, limit_s=LIMIT_S)
    assert variables.DOCUMENTS_AT_ONCE.name in (tmp_path / "run.log").read_text()
