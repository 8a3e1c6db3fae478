"""This version starts on the data of an earlier one, and the earlier one can read this one's
data, or reports that it cannot. `recipe.py` made `before` with the earlier code."""

import array
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from contract import variables
from deploy import stack
from deploy.stack import Stack
from documents.storage import DocumentLimits, DocumentStorage, Order, State
from gateway.access.usage import find_month
from tests.e2e.real_stack import wait_until
from tests.fake_api import FakeApi
from tests.gateway.conftest import serve_fake
from tests.upgrade.recipe import PAIR, SENTENCES, run_documents

BEFORE = Path(__file__).parent / "before"
#: The characters that the earlier version translated for its key, and the number of the month.
CHARACTERS, MONTH = 5, 24322
#: Texts in the journal of the unfinished document.
DONE = 128
#: The fields of a document that the earlier version can read. It fails on any other.
ORDER = {
    "id", "owner", "caller", "address", "name", "tgt_lang", "src_lang", "glossary",
    "password", "created_at",
}  # fmt: skip
STATE = {
    "status", "src_lang", "texts", "texts_done", "characters", "started_at",
    "expires_at", "error", "media_type", "attempts",
}  # fmt: skip
LIMIT_S = 60


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run directory of a machine that was upgraded in the same month."""
    run = tmp_path / "run"
    shutil.copytree(BEFORE, run)
    now = find_month(time.time())
    for script in run.rglob("*.sql"):
        with closing(sqlite3.connect(script.with_suffix(".db"))) as database:
            database.executescript(script.read_text())
            if script.stem == "keys":
                database.execute("UPDATE usage SET month = ?", [now])
            database.commit()
    for file in (run / "access/usage").glob("*.usage"):
        file.write_bytes(turn_to(now, file.read_bytes()))
    for name in os.environ:
        if name.startswith("BABELGATE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv(variables.RUN_DIR.name, str(run))
    return run


def turn_to(now: int, account: bytes) -> bytes:
    """Move an account's usage to this month. An account has two months, one in each half."""
    values = array.array("q", account)
    half = len(values) // 2
    first = values.index(MONTH)
    month = array.array("q", [now, *values[first + 1 : first + half]])
    rest = array.array("q", bytes(8 * half))
    return bytes(month + rest if now % 2 == 0 else rest + month)


@pytest.fixture(params=["without a reboot", "after a reboot"])
def client(
    request: pytest.FixtureRequest, run: Path, tmp_path: Path
) -> Iterator[FlaskClient]:
    """A gateway of this version. The earlier one ran in the same boot, or in another."""
    if request.param == "without a reboot":
        ledger = run / "access/usage/ledger"
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        ledger.write_text(f"{boot} {ledger.read_text().split()[1]}")
    with serve_fake(tmp_path) as make:
        yield make(keys="required", documents=run / "documents")


def test_keys_usage_glossaries_and_documents_are_there(client, run):
    tokens = json.loads((run / "tokens.json").read_text())
    headers = {"X-API-Key": tokens["cat-tool"]}
    reader = {"X-API-Key": tokens["reader"]}
    usage = client.get("/v2/usage", headers=headers).json
    assert (usage["character_count"], usage["character_limit"]) == (CHARACTERS, 5000)
    assert client.get("/v2/usage", headers=reader).status_code == 200
    assert client.get("/glossaries", headers=reader).status_code == 403
    (glossary,) = client.get("/glossaries", headers=headers).json["glossaries"]
    assert glossary["name"] == "animals"
    entries = client.get(f"/glossaries/{glossary['id']}/entries", headers=headers)
    assert entries.text.strip() == "cat\t고양이"
    documents = client.get("/documents", headers=headers).json["documents"]
    states = {document["name"]: document["status"] for document in documents}
    assert states == {"short.txt": "done", "long.txt": "translating"}
    (done,) = (each["id"] for each in documents if each["name"] == "short.txt")
    result = client.get(f"/documents/{done}/result", headers=headers, buffered=True)
    assert result.text.strip() == "HELLO"
    text = {**PAIR, "src_text": "my cat", "glossary": "animals"}
    translated = client.post("/translate", json=text, headers=headers)
    assert "고양이" in translated.text
    usage = client.get("/v2/usage", headers=headers).json
    assert usage["character_count"] == CHARACTERS + len(text["src_text"])


def test_a_document_under_way_goes_on_where_it_was(run: Path):
    storage = DocumentStorage(run / "documents")
    (job,) = storage.list_jobs()
    with FakeApi(translate=str.upper) as gateway:
        with run_documents(gateway):
            wait_until(lambda: not storage.list_jobs(), limit_s=LIMIT_S)
        assert sorted(gateway.texts) == sorted(SENTENCES[DONE:])
    document = storage.find(job.owner, job.id)
    assert document.read_state().status == "done"
    lines = document.result.read_text().splitlines()
    assert lines[::2] == [sentence.upper() for sentence in SENTENCES]


def test_a_stack_that_was_started_by_it_is_known(run: Path):
    started = Stack(run, Path("/srv/babelgate/map.json"), "/srv/models/m2m100")
    assert stack.read(run) == started


def test_the_earlier_version_reads_the_documents_of_this_one(tmp_path: Path):
    storage = DocumentStorage(tmp_path)
    place = storage.reserve("open", "somebody", DocumentLimits(waiting=1, of_one=1))
    place.path.write_text("Hello\n")
    order = Order(place.job.id, "open", "somebody", "127.0.0.1", "a.txt", "ko")
    document = place.accept(order)
    document.write_state(State("done"))
    for name, fields in (("document.json", ORDER), ("state.json", STATE)):
        assert json.loads((document.folder / name).read_text()).keys() <= fields


def test_the_earlier_version_starts_with_the_state_of_this_one(tmp_path: Path):
    """It ignores fields that it does not know, and needs those that it has always had."""
    written = Stack(tmp_path, tmp_path / "map.json", settings={"BABELGATE_KEYS": "off"})
    written.remember()
    earlier = json.loads((BEFORE / "stack.json").read_text())
    assert earlier.keys() <= asdict(written).keys()
    state = json.loads((tmp_path / "stack.json").read_text())
    assert (state["run"], state["map"]) == (str(tmp_path), f"{tmp_path}/map.json")
