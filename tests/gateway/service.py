"""A whole service in one process and one folder: the gateway, the commands for its keys, and
the documents worker. All of it but the model is real, each part can be restarted, and tests
move the clock. `Key`, `Glossary` and `Document` are the expected state.
"""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
import urllib3
from flask.testing import FlaskClient
from typer.testing import CliRunner

import catalog
from contract import variables
from contract.documents import read_secret
from documents import worker
from documents.gateway import DocumentTranslator, Gateway, Wait
from documents.jobs import Jobs
from documents.sandbox import Allowance
from documents.storage import DocumentStorage, Order
from gateway.__main__ import app as commands
from gateway.access.keys import make_token
from gateway.app import GatewayApp, create_app
from gateway.settings import Settings

#: Hours for which documents are kept, texts per request, and attempts at a document.
KEPT_H, CHUNK, MOST_ATTEMPTS = 25, 2, 2
#: An arbitrary month, in which the clock starts.
_MONTH = 24_000

Step = Callable[[], None]


@dataclass(eq=False)
class Key:
    """A key, and the characters that it has used this month."""

    name: str
    token: str
    limit: int | None
    used: int = 0
    is_revoked: bool = False


@dataclass(eq=False)
class Owned:
    """A glossary or document that belongs to a key."""

    id: str
    owner: Key
    is_deleted: bool = field(default=False, kw_only=True)

    def is_seen_by(self, key: Key) -> bool:
        return self.owner is key and not self.is_deleted


@dataclass(eq=False)
class Glossary(Owned):
    """A glossary from English to Korean."""

    entries: Mapping[str, str]


@dataclass(eq=False)
class Document(Owned):
    """An accepted document, and its progress."""

    ending: str
    texts: list[str]
    glossary: Glossary | None
    status: str = "queued"
    problem: str | None = None
    translated: list[str] = field(default_factory=list)
    #: Workers that have ended with it before they sent a request.
    attempts: int = 0
    #: The hour until which it is kept.
    kept_h: float = math.inf

    @property
    def is_waiting(self) -> bool:
        return not self.is_deleted and self.status in ("queued", "translating")

    def list_steps(self) -> Iterator[list[str]]:
        """Yield the texts of each remaining step; reading and writing the file have none."""
        yield []
        rest = self.texts[len(self.translated) :]
        for first in range(0, len(rest), CHUNK):
            yield rest[first : first + CHUNK]
        yield []


def write_file(ending: str, texts: list[str]) -> bytes:
    """Return a file of these texts; a gettext catalog is always damaged."""
    if ending == "po":
        return b"\xff\xfe\xff"
    line = "<p>{}</p>\n" if ending == "html" else "{}\n"
    return "".join(map(line.format, texts)).encode()


def write_table(entries: Mapping[str, str]) -> str:
    """Write entries as TSV."""
    return "\n".join(map("\t".join, entries.items()))


def translate(texts: list[str], glossary: Glossary | None) -> list[str]:
    found = "\n".join(f"ko:{text}" for text in texts)
    for term, translation in (glossary.entries if glossary else {}).items():
        found = found.replace(term, translation)
    return found.split("\n") if texts else []


class Killed(BaseException):
    """A kill of the documents worker."""


class Service:
    """The service on a folder, which no other program may use at the same time."""

    def __init__(self, folder: Path, map_path: Path, **given: object) -> None:
        self._folder = folder
        self._settings = Settings.model_validate(
            {"map": map_path, "keys": "required", "documents": folder / "documents"}
            | given
        )
        self._models = catalog.load(map_path)
        self._patch = pytest.MonkeyPatch()
        self.months = self.hours = 0
        self._set_up()
        self.documents = DocumentStorage(folder / "documents")
        self.client = self._open()

    def _set_up(self) -> None:
        """Make the code run sequentially, in this thread, by the clock of this object."""
        set_attribute = self._patch.setattr
        self._patch.setenv(variables.RUN_DIR.name, str(self._folder / "run"))
        for module in ("usage", "storage"):
            found = f"gateway.access.{module}.find_month"
            set_attribute(found, lambda _: _MONTH + self.months)
        set_attribute("gateway.access.registry._LEAST_S", 0.0)
        set_attribute("documents.gateway.MOST_AT_ONCE", 1)
        set_attribute("documents.translation.ThreadPoolExecutor", _AtOnce)
        set_attribute("documents.translation._LOOK_S", 0.0)
        set_attribute("documents.translation._CHUNK_TEXTS", CHUNK)
        set_attribute("documents.translation._MOST_ATTEMPTS", MOST_ATTEMPTS)

    def close(self) -> None:
        """Stop everything; the folder stays."""
        self._close(self.client)
        self._patch.undo()

    def restart(self, kind: str) -> None:
        """Stop and start the gateway. A `reload` starts the new one before it stops the old
        one; a `boot` of the machine keeps only the files on its disk."""
        if kind == "reload":
            self.client, old = self._open(), self.client
            self._close(old)
            return
        self._close(self.client)
        if kind == "boot":
            shutil.rmtree(self._folder / "run/access/accounts")
        self.client = self._open()

    def _open(self) -> FlaskClient:
        return create_app(self._settings, models=self._models).test_client()

    def _close(self, client: FlaskClient) -> None:
        cast(GatewayApp, client.application).close()

    def add_key(self, name: str, limit: int | None) -> str:
        """Add a key and return its token."""
        options = () if limit is None else ("--characters-per-month", str(limit))
        return self._call("add", "--name", name, *options).strip()

    def revoke_key(self, name: str) -> None:
        """Revoke a key, and wait until the gateway has read the keys again."""
        self._call("revoke", name)
        stranger = {"X-API-Key": make_token()[0]}
        self.client.get("/v2/usage", headers=stranger)  # makes it read the keys

    def list_usage(self) -> dict[str, int]:
        """Return the saved characters of every key by its id."""
        listed = json.loads(self._call("list", "--json"))
        return {key["id"]: key["characters_this_month"] for key in listed}

    def _call(self, *arguments: str) -> str:
        result = CliRunner().invoke(commands, ["keys", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    def work(self, document_id: str, before: Callable[[Jobs], None]) -> None:
        """Start a worker, which translates a document unless it is stopped or killed. `before`
        is called before each step: reading, every request, writing."""
        (job,) = (j for j in self.documents.list_jobs() if j.id == document_id)

        def step() -> None:
            before(jobs)

        def take_step(request: Mapping[str, Any], _: Allowance, check: Step) -> Any:
            before(jobs)
            check()
            return worker.run(request)

        gateway, kept_s = _Asking(self, step), 3600 * (self.hours + KEPT_H)
        jobs = Jobs(self.documents, gateway, take_step, kept_s=kept_s, at_once=1)
        with suppress(Killed):
            jobs.work_on(job)

    def walk(self) -> list[str]:
        """Delete the expired documents, and return their ids."""
        return [*filter(None, self.documents.walk(time.time() + 3600 * self.hours))]


class _AtOnce(Executor):
    """An executor that runs calls in the calling thread, which has the gateway's event loop."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class _Asking(Gateway):
    """A client of the gateway that calls the application without a connection."""

    def __init__(self, service: Service, before: Step) -> None:
        super().__init__("localhost:0", read_secret())
        self._service, self._before = service, before

    @contextmanager
    def connect(self, order: Order, wait: Wait) -> Iterator[DocumentTranslator]:
        """Connect, with this object in place of the connection pool."""
        with (
            super().connect(order, wait) as translator,
            patch.object(translator._client, "_pool", self),
        ):
            yield translator

    def close(self) -> None:
        """Do nothing, in place of urllib3's pool."""

    def urlopen(self, method: str, path: str, **given: Any) -> urllib3.BaseHTTPResponse:
        """Call the application, in place of urllib3's pool."""
        self._before()
        answer = self._service.client.open(
            path, method=method, data=b"".join(given["body"]), headers=given["headers"]
        )
        return urllib3.HTTPResponse(
            BytesIO(answer.data),
            dict(answer.headers),
            status=answer.status_code,
            preload_content=False,
        )
