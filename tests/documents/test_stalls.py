"""Documents go on where the database's answers do not come."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from contract import variables
from deploy.stack import ROOT
from documents.storage import DocumentStorage
from tests.documents.conftest import Add
from tests.documents.fake_gateway import FakeGateway
from tests.e2e.real_stack import wait_until
from tests.gateway.access.servers import make_postgresql

pytestmark = pytest.mark.faults

LIMIT_S = 120
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"


def test_backends_that_are_stopped_hold_up_no_document(
    add: Add, storage: DocumentStorage, gateway: FakeGateway, tmp_path: Path
):
    with make_postgresql() as server, server.run():
        given = {
            variables.DOCUMENTS: str(storage.folder),
            variables.GATEWAY_BIND: gateway.address,
            variables.DATABASE_URL: f"{server.url}/postgres",
        }
        with (tmp_path / "log").open("wb") as log:
            program = subprocess.Popen(
                [sys.executable, "-m", "documents"],
                cwd=ROOT,
                env=os.environ | {each.name: value for each, value in given.items()},
                stderr=log,
            )
        stopped: list[psutil.Process] = []
        try:
            first = add("Hello", name="a.txt")
            wait_until(lambda: first.read_state().is_over, limit_s=LIMIT_S)
            with server.connect() as connection:
                ours = connection.info.backend_pid
                pids = [pid for (pid,) in connection.execute(BACKENDS) if pid != ours]
            stopped += map(psutil.Process, pids)
            assert stopped
            for backend in stopped:
                backend.suspend()
            second = add("Goodbye", name="b.txt")
            wait_until(lambda: second.read_state().status == "done", limit_s=LIMIT_S)
        finally:
            for backend in stopped:
                backend.resume()
            program.terminate()
            program.wait(LIMIT_S)
        said = (tmp_path / "log").read_text()
        for document in (first, second):
            assert document.order.id not in said
            assert f"document {document.order.id[:8]}: ended" in said
