"""The client of the management API: what it asks over HTTP, and how it takes the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.scripted_server import ClosingServer, QuietHandler
from tests.torchserve_backend.fakes import want
from torchserve_backend.management import (
    Management,
    ManagementError,
    Registered,
    read_key,
)

CALLS: dict[str, Callable[[Management], object]] = {
    "names": lambda m: m.names(),
    "describe": lambda m: m.describe("ko"),
    "register": lambda m: m.register(
        want("ko", batch_size=8, max_batch_delay=5, workers=2)
    ),
    "scale": lambda m: m.scale("ko", 1),
    "unregister": lambda m: m.unregister("ko", "1.0"),
}


class Server(ClosingServer):
    """Writes requests and their keys down, and answers each with what a test has given."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.keys: list[str] = []
        self.answers: list[tuple[int, Any]] = []
        super().__init__(("127.0.0.1", 0), partial(_Handler, self))


class _Handler(QuietHandler):
    def __init__(self, fake: Server, *args: Any) -> None:
        self.fake = fake
        super().__init__(*args)

    def do_GET(self) -> None:
        self.fake.asked.append(f"{self.command} {self.path}")
        self.fake.keys.append(self.headers["Authorization"].removeprefix("Bearer "))
        status, said = self.fake.answers.pop(0)
        self.reply(
            status, said if isinstance(said, bytes) else json.dumps(said).encode()
        )

    do_POST = do_PUT = do_DELETE = do_GET


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    found.start()
    yield found
    found.stop()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """The file of keys that TorchServe writes when it starts."""
    path = tmp_path / "key_file.json"
    path.write_text('{"management": {"key": "m-key"}, "inference": {"key": "i-key"}}')
    return path


@pytest.fixture
def management(server: Server, key_file: Path) -> Management:
    return Management(server.url, key_file)


def test_a_model_is_described_if_it_is_there(server: Server, management: Management):
    workers = [{"status": "READY"}, {"status": "UNLOADING"}, {"status": "READY"}]
    described = {
        "modelVersion": "1.0-ab",
        "minWorkers": 3,
        "workers": workers,
        "batchSize": 64,
        "maxBatchDelay": 100,
        "jobQueueStatus": {"remainingCapacity": 4089, "pendingRequests": 7},
    }
    server.answers = [(200, [described]), (404, {"message": "Model not found: ko"})]
    found = management.describe("ko")
    assert found == Registered("ko", "1.0-ab", 64, 100, 3, 2, 7)
    assert found.is_ready
    assert management.describe("ko") is None


def test_names_that_are_on_several_pages_are_all_listed(server, management):
    """A full page names the next one, even if nothing is there."""
    names = [f"model-{i:03}" for i in range(200)]
    pages = [
        [{"modelName": name} for name in names[i : i + 100]] for i in (0, 100, 200)
    ]
    server.answers = [
        (200, {"models": pages[0], "nextPageToken": "100"}),
        (200, {"models": pages[1], "nextPageToken": "200"}),
        (200, {"models": pages[2]}),
    ]
    assert management.names() == names
    starts = [path.rpartition("=")[2] for path in server.asked]
    assert starts == ["0", "100", "200"]


def test_a_model_is_registered_once_scaled_and_unregistered(server, management):
    there = (409, {"type": "ConflictStatusException", "message": "registered"})
    server.answers = [(202, {}), there, (202, {}), (202, {}), (200, {})]
    for _ in range(2):
        CALLS["register"](management)
    management.scale("ko", 2)
    management.scale("ko", 2, wait=True)
    management.unregister("ko", "1.0-ab")
    registered = (
        "POST /models?url=ko.mar&model_name=ko&batch_size=8&max_batch_delay=5"
        "&initial_workers=2&synchronous=false"
    )
    assert server.asked == [
        *(registered, registered),
        "PUT /models/ko?min_worker=2&max_worker=2&synchronous=false",
        "PUT /models/ko?min_worker=2&max_worker=2&synchronous=true",
        "DELETE /models/ko/1.0-ab",
    ]


@pytest.mark.parametrize(
    ("status", "body", "quoted"),
    [
        pytest.param(
            *(503, b'{"type": "Unavailable", "message": "too busy"}'),
            "503 Unavailable: too busy",
            id="TorchServe's",
        ),
        pytest.param(413, b"", "413 an empty answer", id="empty"),
        pytest.param(502, b"<h1>Bad Gateway</h1>", "502 <h1>Bad Gateway", id="HTML"),
        pytest.param(200, b"<h1>Welcome</h1>", "200 <h1>Welcome", id="another server"),
        pytest.param(500, b'{"error": "x"}', '500 {"error": "x"}', id="another shape"),
    ],
)
def test_a_refusal_and_an_answer_that_is_not_torchserves_are_quoted(
    server, management, status, body, quoted
):
    server.answers = [(status, body)] * len(CALLS)
    for call in CALLS.values():
        with pytest.raises(ManagementError) as error:
            call(management)
        assert quoted in str(error.value)
        assert server.url in str(error.value)
        assert "m-key" not in str(error.value)


def test_the_key_is_read_again_at_every_call(server, management, key_file):
    server.answers = [(200, {"models": []})] * 3
    management.names()
    key_file.write_text('{"management": {"key": "new-key"}}')
    management.names()
    key_file.unlink()  # without tokens
    management.names()
    assert [key.strip() for key in server.keys] == ["m-key", "new-key", ""]


@pytest.mark.parametrize(
    "content", [None, "", '{"management": {"ke', "{}", '{"management": {}}', "[]"]
)
def test_a_key_file_that_cannot_be_used_is_no_key(tmp_path: Path, content: str | None):
    path = tmp_path / "key_file.json"
    if content is not None:
        path.write_text(content)
    assert read_key(path, "management") == ""
