"""Makes a run directory as test data, with the code of the version that is to be upgraded:

    python -m tests.upgrade.recipe FOLDER

Databases are written as SQL, so that diffs show their content. The tokens are valid nowhere."""

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path

from contract import variables
from deploy.stack import Stack
from documents.storage import DocumentStorage as Documents
from gateway.access.keys import Grant
from gateway.access.storage import KeyStorage
from gateway.database import find_database
from gateway.settings import Settings
from tests.e2e.real_stack import wait_until
from tests.fake_api import Failure, FakeApi
from tests.gateway.conftest import serve_fake
from tests.programs import spawn

SENTENCES = [f"Sentence {number}." for number in range(200)]
PAIR = {"src_lang": "en", "tgt_lang": "ko"}
GLOSSARY = {**PAIR, "name": "animals", "entries": {"cat": "고양이"}}
#: Long enough that the documents do not expire while this data is in use.
_KEPT_S = str(10**10)
#: The number of requests of the second document that are answered.
_ANSWERED = 2
_LIMIT_S = 300


def main(folder: Path) -> None:
    """Create the folder, which must not exist."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        run = scratch / "run"
        os.environ |= {
            variables.RUN_DIR.name: str(run),
            variables.DOCUMENTS_KEPT_S.name: _KEPT_S,
        }
        Stack(run, Path("/srv/babelgate/map.json"), "/srv/models/m2m100").write("{}")
        tokens = _use_gateway(scratch)
        _translate_documents(run)
        (run / "tokens.json").write_text(json.dumps(tokens, indent=1) + "\n")
        _write_sql(run / "access/keys.db")
        shutil.copytree(run, folder)


def _use_gateway(scratch: Path) -> dict[str, str]:
    """Create two keys, and usage, a glossary and two documents of one; return the tokens."""
    with serve_fake(scratch) as make:
        storage = KeyStorage(find_database(Settings()))
        tokens = {
            "cat-tool": storage.add("cat-tool", Grant(5000, 600)),
            "reader": storage.add("reader", Grant(routes=("/v2/usage",))),
        }
        storage.close()
        documents = scratch / "run/documents"
        client = make(keys="required", documents=documents)
        headers = {"Authorization": f"Bearer {tokens['cat-tool']}"}
        text = {**PAIR, "src_text": "Hello"}
        for path, body in (("/translate", text), ("/glossaries", GLOSSARY)):
            answer = client.post(path, json=body, headers=headers)
            assert answer.status_code in (200, 201), answer.text
        for name, lines in (("short.txt", ["Hello"]), ("long.txt", SENTENCES)):
            file = "".join(f"{line}\n\n" for line in lines).encode()
            form = {**PAIR, "file": (BytesIO(file), name)}
            answer = client.post("/documents", data=form, headers=headers)
            assert answer.status_code == 202, answer.text
    return tokens


def _translate_documents(run: Path) -> None:
    """Translate the short document, and the long one until the program is killed."""
    storage = Documents(run / "documents")
    long: list[list[str]] = []

    def is_far_enough() -> bool:
        return len(storage.list_jobs()) == 1 and len(long) > _ANSWERED

    with FakeApi(translate=str.upper) as gateway:

        def judge(texts: list[str]) -> Failure | None:
            if texts[0] == "Hello":
                return None
            long.append(texts)
            return Failure(503) if len(long) > _ANSWERED else None

        gateway.judge = judge
        with run_documents(gateway):
            wait_until(is_far_enough, limit_s=_LIMIT_S)


@contextmanager
def run_documents(gateway: FakeApi) -> Iterator[None]:
    """Run the program that translates documents through a gateway, and kill it."""
    command = (sys.executable, "-m", "documents")
    with spawn(*command, BABELGATE_GATEWAY_BIND=gateway.address) as program:
        try:
            yield
        finally:
            program.kill()


def _write_sql(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        lines = "".join(f"{line}\n" for line in connection.iterdump())
    database.with_suffix(".sql").write_text(lines)
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
