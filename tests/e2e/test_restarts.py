"""A stack's settings survive every restart, and its programs get no more than they must."""

import json
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from benchmarks.instruments.running import claim_port_offset
from deploy import stack as stacks
from deploy.stack import Stack
from gateway.access.keys import Grant
from gateway.access.storage import KeyStorage
from tests.e2e.real_stack import list_ours, operate, processes, wait_until
from tests.e2e.test_document_jobs import ECHO, count_done, is_done, kill_all, upload

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "de"}
#: The order of stopping: a client stops before its server.
STOPPED = ["nginx", "documents", "gateway", "registrar", "torchserve"]
SECRET = "what only two programs know"


@dataclass
class Operator:
    """An operator who runs each command in a new shell."""

    run: Path
    cache: Path
    offset: int

    def __call__(self, command: str, *options: str, **variables: str) -> str:
        with pytest.MonkeyPatch.context() as shell:
            for name, value in variables.items():
                shell.setenv(name, value)
            return operate(self.run, self.cache, command, *options)

    @property
    def stack(self) -> Stack:
        found = stacks.read(self.run)
        assert found
        return found

    def ask(self, **headers: str) -> int:
        """Return the status of a translation."""
        url = self.stack.url
        return requests.post(url, json=WANTED, headers=headers, timeout=60).status_code


@pytest.fixture(scope="module")
def map_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "map.json"
    path.write_text(json.dumps(ECHO))
    return path


@pytest.fixture(scope="module")
def operator(tmp_path_factory, cache, map_path) -> Iterator[Operator]:
    """A stack that requires keys, with its database elsewhere."""
    folder = tmp_path_factory.mktemp("restarts")
    operator = Operator(folder / "run", cache, claim_port_offset())
    database = f"sqlite:///{folder / SECRET}.db"
    offset = ("--port-offset", str(operator.offset))
    try:
        operator(
            "up",
            "--map",
            str(map_path),
            *offset,
            BABELGATE_KEYS="required",
            BABELGATE_DATABASE_URL=database,
            BABELGATE_CLIENT_KEY=SECRET,
        )
        yield operator
    finally:
        operator("down")


@pytest.fixture(scope="module")
def headers(operator: Operator) -> dict[str, str]:
    assert operator.stack.settings
    storage = KeyStorage(operator.stack.settings["BABELGATE_DATABASE_URL"])
    token = storage.add("cat-tool", Grant())
    storage.close()
    return {"X-API-Key": token}


def test_keys_stay_required_over_every_restart(operator, headers, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps(ECHO | {"cuda_id": {"de": "cpu", "fr": "cpu"}}))
    changed = ("up", "--map", str(other))
    restarts: dict[str, Callable[[], str]] = {
        "up again": lambda: operator("up"),
        "reload": lambda: operator("reload"),
        "another map and setting": lambda: operator(*changed, BABELGATE_TIMEOUT_S="20"),
        "a kill and up": lambda: operator("up"),
    }
    said = {}
    for name, restart in restarts.items():
        if name == "a kill and up":  # as after a power cut
            kill_all(operator.stack)
        said[name] = restart()
        wait_until(lambda: operator.ask(**headers) == 200)
        assert operator.ask() == 401, name
        for line in said[name].splitlines():
            assert SECRET not in line
    assert "CONFIG: " in said["another map and setting"]
    assert "BABELGATE_TIMEOUT_S: unset → 20" in said["another map and setting"]
    for kept in ("BABELGATE_TIMEOUT_S=20", "BABELGATE_KEYS=required"):
        assert kept in said["a kill and up"]
    assert operator.stack.map == other
    languages = requests.get(f"{operator.stack.url}/languages", timeout=60).json()
    assert "fr" in json.dumps(languages)


def test_a_document_goes_on_after_a_clean_stop(operator, headers):
    content = "".join(f"Sentence {line}.\n" for line in range(6000))
    where = upload(operator.stack.url, content, **headers)
    wait_until(lambda: count_done([where], **headers) > 0)
    before = operator.stack.log("supervisord").stat().st_size
    operator("down")
    said = operator.stack.log("supervisord").read_text()[before:]
    assert re.findall(r"stopped: (\w+)", said) == STOPPED
    assert "BABELGATE_KEYS=required" in operator("up")
    assert operator.ask() == 401
    wait_until(lambda: is_done(where, **headers))
    result = requests.get(f"{where}/result", headers=headers, timeout=60)
    assert result.text == content


@pytest.mark.usefixtures("headers")
def test_secrets_are_known_to_those_that_need_them(operator: Operator):
    readers = set()
    for process in processes(operator.stack)[1:]:
        environment = process.environ()
        assert "BABELGATE_CLIENT_KEY" not in environment, process.cmdline()
        if SECRET in "".join(environment.values()):
            readers.add(environment["BABELGATE_PROGRAM"])
    assert readers == {"gateway"}


@pytest.mark.usefixtures("headers")
def test_nobody_else_reads_what_the_stack_writes(operator: Operator):
    run = operator.run
    files = [run / "stack.json", *(run / "logs").glob("*.log*")]
    assert len(files) > 5
    open_to_others = stat.S_IRWXG | stat.S_IRWXO
    for path in (*files, run / "documents", run / "access"):
        assert not path.stat().st_mode & open_to_others, path
    assert not operator.stack.metrics.stat().st_mode & open_to_others


def test_ids_of_documents_are_in_no_log(operator: Operator, headers: dict[str, str]):
    url = operator.stack.url
    where = upload(url, "Hello\n", **headers)
    document = where.rpartition("/")[2]
    wait_until(lambda: is_done(where, **headers))
    for path in ("/result", "//result", "?key=x", "/result%20"):
        requests.get(where + path, headers=headers, timeout=60)
    requests.get(f"{url}/document%73/{document}", headers=headers, timeout=60)
    requests.delete(where, headers=headers, timeout=60)
    logs = "".join(
        path.read_text("utf-8", "replace")
        for path in (operator.run / "logs").iterdir()
        if path.is_file()
    )
    assert f"/documents/{document[:8]}/result" in logs
    assert f"document {document[:8]}" in logs
    assert document not in logs


def test_what_is_forgotten_is_all_but_required_keys(operator: Operator):
    said = operator("down", "--forget")
    assert "Stopped" in said
    assert not list_ours(operator.run)
    assert operator.stack.settings == {"BABELGATE_KEYS": "required"}
    assert operator.stack.map == stacks.UNSAID


def test_keys_are_switched_off_by_saying_so(operator: Operator, map_path: Path):
    options = ("--map", str(map_path), "--port-offset", str(operator.offset))
    said = operator("up", *options, BABELGATE_KEYS="off")
    assert "BABELGATE_KEYS: required → off" in said
    wait_until(lambda: operator.ask() == 200)
