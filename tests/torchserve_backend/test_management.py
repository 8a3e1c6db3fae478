"""The client of the management API: its HTTP requests, and its treatment of the answers."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from responses import RequestsMock

from tests.torchserve_backend.fakes import want
from torchserve_backend.management import (
    Management,
    ManagementError,
    Registered,
    read_key,
)

CALLS: dict[str, Callable[[Management], object]] = {
    "names": lambda m: m.names(),
    "versions": lambda m: m.versions("ko"),
    "describe": lambda m: m.describe("ko"),
    "register": lambda m: m.register(
        want("ko", batch_size=8, max_batch_delay=5, workers=2)
    ),
    "scale": lambda m: m.scale("ko", 1),
    "set default": lambda m: m.set_default("ko", "1.0"),
    "unregister": lambda m: m.unregister("ko", "1.0"),
}


URL = "http://torchserve.invalid"
ANY = re.compile(f"{URL}/")


@pytest.fixture
def server() -> Iterator[RequestsMock]:
    """A fake TorchServe with the answers that a test adds, of which the last is repeated."""
    with RequestsMock() as found:
        yield found


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """The file of keys that TorchServe writes when it starts."""
    path = tmp_path / "key_file.json"
    path.write_text('{"management": {"key": "m-key"}, "inference": {"key": "i-key"}}')
    return path


@pytest.fixture
def management(key_file: Path) -> Management:
    return Management(URL, key_file)


def list_calls(server: RequestsMock) -> list[str]:
    requests = [call.request for call in server.calls]
    return [f"{each.method} {each.path_url}" for each in requests]


def test_a_model_is_described_if_it_is_there(
    server: RequestsMock, management: Management
):
    states = ("READY", "UNLOADING", "READY")
    workers = [
        {"id": f"900{number}", "startTime": "12:00:00.000Z", "status": state, "pid": 7}
        for number, state in enumerate(states)
    ]
    described = {
        "modelVersion": "1.0-ab",
        "minWorkers": 3,
        "workers": workers,
        "batchSize": 64,
        "maxBatchDelay": 100,
        "jobQueueStatus": {"remainingCapacity": 4089, "pendingRequests": 7},
    }
    for _ in range(2):
        server.get(ANY, json=[described])
    server.get(ANY, status=404, json={"message": "Model not found: ko"})
    found = management.describe("ko")
    life = found.life if found else ""
    assert found == Registered("ko", "1.0-ab", 64, 100, 3, 2, 7, life)
    assert found.is_ready
    assert management.versions("ko") == ["1.0-ab"]
    assert life.startswith("1.0-ab, ['9000', '12:00:00.000Z', 7], ['9001', ")
    assert management.describe("ko", "1.0-cd") is None
    assert list_calls(server) == [
        "GET /models/ko",
        "GET /models/ko/all",
        "GET /models/ko/1.0-cd",
    ]


def test_names_that_are_on_several_pages_are_all_listed(server, management):
    """A full page names the next one, even if that is empty."""
    names = [f"model-{i:03}" for i in range(200)]
    for start in (0, 100, 200):
        page = [{"modelName": name} for name in names[start : start + 100]]
        following = {"nextPageToken": f"{start + 100}"} if page else {}
        server.get(ANY, json={"models": page, **following})
    assert management.names() == names
    starts = [call.rpartition("=")[2] for call in list_calls(server)]
    assert starts == ["0", "100", "200"]


def test_a_model_is_registered_once_scaled_and_unregistered(server, management):
    there = {"type": "ConflictStatusException", "message": "registered"}
    server.post(ANY, status=202, json={})
    server.post(ANY, status=409, json=there)
    server.put(ANY, status=202, json={})
    server.delete(ANY, json={})
    for _ in range(2):
        CALLS["register"](management)
    management.scale("ko", 2)
    management.scale("ko", 2, wait=True)
    management.set_default("ko", "1.0-cd")
    management.unregister("ko?", "1.0-ab")
    registered = (
        "POST /models?url=ko.mar&model_name=ko&batch_size=8&max_batch_delay=5"
        "&initial_workers=2&synchronous=false"
    )
    assert list_calls(server) == [
        registered,
        registered,
        "PUT /models/ko?min_worker=2&max_worker=2&synchronous=false",
        "PUT /models/ko?min_worker=2&max_worker=2&synchronous=true",
        "PUT /models/ko/1.0-cd/set-default",
        "DELETE /models/ko%3F/1.0-ab",
    ]


BUSY = b'{"type": "Unavailable", "message": "too busy"}'


@pytest.mark.parametrize(
    ("status", "body", "quoted"),
    [
        (503, BUSY, "503 Unavailable: too busy"),
        (413, b"", "413 an empty answer"),
        (502, b"<h1>Bad Gateway</h1>", "502 <h1>Bad Gateway"),
        (200, b"<h1>Welcome</h1>", "200 <h1>Welcome"),
        (500, b'{"error": "x"}', '500 {"error": "x"}'),
    ],
    ids=["TorchServe's", "empty", "HTML", "another server", "another shape"],
)
def test_a_refusal_and_an_answer_that_is_not_torchserves_are_quoted(
    server, management, status, body, quoted
):
    for method in ("GET", "POST", "PUT", "DELETE"):
        server.add(method, ANY, status=status, body=body)
    for call in CALLS.values():
        with pytest.raises(ManagementError) as error:
            call(management)
        assert quoted in str(error.value)
        assert URL in str(error.value)
        assert "m-key" not in str(error.value)


def test_the_key_is_read_again_at_every_call(server, management, key_file):
    server.get(ANY, json={"models": []})
    management.names()
    key_file.write_text('{"management": {"key": "new-key"}}')
    management.names()
    key_file.unlink()  # without tokens
    management.names()
    sent = [call.request.headers["Authorization"] for call in server.calls]
    assert sent == ["Bearer m-key", "Bearer new-key", "Bearer "]


@pytest.mark.parametrize(
    "content", ["", '{"management": {"ke', "{}", '{"management": 1}', "[]"]
)
def test_a_key_file_that_cannot_be_used_is_no_key(key_file: Path, content: str):
    key_file.write_text(content)
    assert read_key(key_file, "management") == ""
