"""Jobs survive whatever ends the program that translates, each document exactly once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from contract import variables
from deploy.stack import ROOT
from documents.places import find_jobs
from documents.storage import Document
from tests.documents.fake_gateway import Failure, FakeGateway
from tests.e2e.real_stack import wait_until
from tests.gateway.access.servers import make_postgresql

pytestmark = pytest.mark.slow

MANY = [f"text {number}" for number in range(2000)]
LIMIT_S = 60

Add = Callable[..., Document]


@pytest.fixture
def add_text(add: Add) -> Add:
    """Adds a document of a real format: the program knows no other."""
    return partial(add, name="a.txt")


def is_busy(gateway: FakeGateway, count: int) -> Callable[[], bool]:
    """Whether more requests than this have arrived."""
    return lambda: len(gateway.asked) > count


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request) -> Iterator[str]:
    """One of each kind; SQLite's is in the run directory."""
    if request.param == "sqlite":
        yield ""
        return
    with make_postgresql() as server, server.run():
        yield f"{server.url}/postgres"


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(gateway, storage, tmp_path) -> Iterator[Start]:
    """Starts the program; several with run directories of their own are several machines."""
    programs: list[subprocess.Popen[bytes]] = []

    def start(run: str = "run", **more: str) -> subprocess.Popen[bytes]:
        given = {
            variables.RUN_DIR: str(tmp_path / run),
            variables.DOCUMENTS: str(storage.folder),
            variables.GATEWAY_BIND: gateway.address,
        }
        environment = {variable.name: value for variable, value in given.items()}
        with (tmp_path / f"{run}.log").open("ab") as log:
            program = subprocess.Popen(
                [sys.executable, "-m", "documents"],
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


def wait_for(documents: list[Document], status: str = "done") -> None:
    def are_over() -> bool:
        return all(document.read_state().is_over for document in documents)

    wait_until(are_over, limit_s=LIMIT_S)
    assert [document.read_state().status for document in documents] == [status] * len(
        documents
    )


def check_results(documents: list[Document], texts: list[str] = MANY) -> None:
    for document in documents:
        lines = document.result.read_text().splitlines()
        assert lines == [text.upper() for text in texts]


def test_documents_are_translated_and_their_jobs_end(add_text, start, storage):
    documents = [add_text(*MANY[:5]) for _ in range(6)]
    start()
    wait_for(documents)
    check_results(documents, MANY[:5])
    wait_until(lambda: not storage.list_unfinished(), limit_s=LIMIT_S)


def test_killed_programs_lose_and_double_nothing(
    add_text, start, storage, gateway, database_url
):
    url = {variables.DATABASE_URL.name: database_url}
    documents = [add_text(*MANY) for _ in range(20)]
    for kills in range(1, 5):
        program = start(**url)
        wait_until(is_busy(gateway, 20 * kills), limit_s=LIMIT_S)
        program.kill()
        program.wait()
    start(**url)
    wait_for(documents)
    check_results(documents)
    wait_until(lambda: not storage.list_unfinished(), limit_s=LIMIT_S)


def test_another_machine_goes_on_for_one_that_is_gone(
    add_text, start, gateway, tmp_path
):
    with make_postgresql() as server, server.run():
        url = {variables.DATABASE_URL.name: f"{server.url}/postgres"}
        gateway.pause = lambda: None
        gateway.judge = lambda _: Failure(503)
        documents = [add_text(*MANY) for _ in range(3)]
        first = start("first", **url)
        wait_until(is_busy(gateway, 0), limit_s=LIMIT_S)
        first.kill()
        first.wait()
        gateway.judge = lambda _: None
        second = start("second", **url)
        wait_for(documents)
        check_results(documents)
        second.terminate()
        assert second.wait(LIMIT_S) == 0


def test_a_lost_database_is_made_anew(add_text, start, gateway):
    gateway.judge = lambda _: Failure(503)
    documents = [add_text(*MANY) for _ in range(3)]
    program = start()
    wait_until(is_busy(gateway, 0), limit_s=LIMIT_S)
    program.kill()
    program.wait()
    for path in find_jobs().glob("jobs.db*"):
        path.unlink()
    gateway.judge = lambda _: None
    start()
    wait_for(documents)
    check_results(documents)


def test_a_clean_stop_leaves_the_rest_to_the_next_program(add_text, start, gateway):
    documents = [add_text(*MANY) for _ in range(3)]
    program = start()
    wait_until(is_busy(gateway, 5), limit_s=LIMIT_S)
    program.terminate()
    assert program.wait(LIMIT_S) == 0
    start()
    wait_for(documents)
    check_results(documents)


def test_nobody_waits_for_a_client_with_many_documents(
    add_text, start, storage, gateway
):
    gateway.judge = lambda _: Failure(503)
    for _ in range(10):
        add_text(*MANY)
    start()
    wait_until(is_busy(gateway, 0), limit_s=LIMIT_S)
    other = add_text("one", caller="another")
    gateway.judge = lambda texts: None if texts == ["one"] else Failure(503)
    wait_for([other])
    gateway.judge = lambda _: None


def test_a_deleted_document_has_no_job(add_text, start, storage, gateway):
    gateway.judge = lambda _: Failure(503)
    document = add_text(*MANY)
    start()
    wait_until(is_busy(gateway, 0), limit_s=LIMIT_S)
    storage.delete(document)
    wait_until(lambda: not storage.list_unfinished(), limit_s=LIMIT_S)
    assert not list((storage.folder / "kept" / "open").iterdir())


def test_what_is_written_down_holds_no_text(add_text, start, run, tmp_path):
    secret = "what nobody else may read"
    documents = [add_text(secret), add_text(content=b"\xff\xfe\xff", name="a.po")]
    program = start()
    wait_until(lambda: all(d.read_state().is_over for d in documents), limit_s=LIMIT_S)
    program.terminate()
    program.wait(LIMIT_S)
    kept = (tmp_path / "run.log").read_bytes()
    with closing(sqlite3.connect(find_jobs() / "jobs.db")) as database:
        kept += "\n".join(database.iterdump()).encode()
    assert secret.encode() not in kept
    assert secret.upper().encode() not in kept
    assert oct((find_jobs() / "secret").stat().st_mode)[-3:] == "600"


def test_documents_go_when_their_time_has_come(add_text, start, storage):
    document = add_text("one")
    start(**{variables.DOCUMENTS_KEPT_S.name: "0.5"})
    wait_until(lambda: not document.folder.exists(), limit_s=2 * LIMIT_S)


def test_a_database_that_is_gone_is_told_without_its_password(start, tmp_path):
    url = "postgresql://me:password@127.0.0.1:9/none"
    program = start(**{variables.DATABASE_URL.name: url})
    wait_until(lambda: program.poll() == 1, limit_s=LIMIT_S)
    said = (tmp_path / "run.log").read_text()
    assert "cannot be used: (psycopg.OperationalError)" in said
    assert "password" not in said
    assert "Traceback" not in said


def test_a_wrong_setting_is_named(start, tmp_path):
    program = start(**{variables.DOCUMENTS_AT_ONCE.name: "none"})
    wait_until(lambda: program.poll() == 1, limit_s=LIMIT_S)
    assert variables.DOCUMENTS_AT_ONCE.name in (tmp_path / "run.log").read_text()
