"""Documents in a test format with one text per line, and a gateway that a test controls."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from contract import variables
from documents import worker
from documents.errors import DamagedDocument
from documents.formats.format import Ask, DocumentContext, Format
from documents.gateway import Gateway
from documents.sandbox import Allowance
from documents.storage import (
    NOBODY,
    DocumentFolder,
    DocumentLimits,
    DocumentStorage,
    Order,
    read_page,
)
from tests.fake_api import FakeApi

LIMITS = DocumentLimits(waiting=300, of_one=250)
DAMAGED = b"\xff\n"


def translate_lines(
    source: Path, ask: Ask, target: Path | None, context: DocumentContext
) -> None:
    lines = [context.target]
    for number, line in enumerate(source.read_bytes().splitlines(keepends=True), 1):
        if line == DAMAGED:
            raise DamagedDocument(f"Line {number} is damaged.")
        lines.append(ask(line.decode().removesuffix("\n")))
    if target:
        assert not target.exists()
        target.write_text("".join(f"{line}\n" for line in lines))


LINES = Format((".lines",), "text/x-lines", "text", translate_lines)


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the line format for every document, and notice stops at once."""
    monkeypatch.setattr("documents.translation._LOOK_S", 0.0001)
    monkeypatch.setattr("documents.translation._PAUSE_S", 0.01)
    monkeypatch.setattr("documents.worker.find_format", lambda name: LINES)


def take_step(
    request: Mapping[str, Any], _: Allowance, check: Callable[[], None]
) -> Mapping[str, Any]:
    """Run a step in this process, without limits."""
    check()
    return worker.run(request)


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run directory of the programs in a test."""
    folder = tmp_path / "run"
    monkeypatch.setenv(variables.RUN_DIR.name, str(folder))
    return folder


@pytest.fixture
def storage(tmp_path: Path) -> DocumentStorage:
    return DocumentStorage(tmp_path / "documents")


Add = Callable[..., DocumentFolder]


@pytest.fixture
def add(storage: DocumentStorage) -> Add:
    """Add a document with these texts, as the gateway does."""

    def add(*texts: str, content: bytes = b"", **given: Any) -> DocumentFolder:
        owner = given.pop("owner", NOBODY)
        caller = given.pop("caller", "somebody")
        place = storage.reserve(owner, caller, LIMITS)
        name = given.pop("name", "a.lines")
        data = content or "".join(f"{text}\n" for text in texts).encode()
        place.path.write_bytes(data)
        webhook = given.pop("webhook", None)
        wanted = {"address": "10.1.2.3", "tgt_lang": "de", "src_lang": "en"} | given
        order = Order(place.job.id, owner, caller, name=name, **wanted)
        return place.accept(order, webhook)

    return add


@pytest.fixture
def gateway() -> Iterator[FakeApi]:
    with FakeApi(translate=str.upper) as fake:
        yield fake


@pytest.fixture
def asking(gateway: FakeApi) -> Gateway:
    return Gateway(gateway.address, "secret")


def list_orders(storage: DocumentStorage, owner: str) -> list[Order]:
    """Return the orders of an owner's readable documents."""
    found, _ = read_page(storage, owner, "", 99)
    return [document.order for document, _ in found]


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()
