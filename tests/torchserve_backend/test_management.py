"""The client of the management API, against a TorchServe that is fake but speaks HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torchserve_backend.fakes import FakeTorchServe
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
        "ko.mar", "ko", batch_size=64, max_batch_delay=100, workers=1
    ),
    "scale": lambda m: m.scale("ko", 1),
    "unregister": lambda m: m.unregister("ko", "1.0"),
}


def test_a_model_is_described(torchserve: FakeTorchServe, management: Management):
    workers = [{"status": "READY"}, {"status": "UNLOADING"}, {"status": "READY"}]
    queue = {"remainingCapacity": 4089, "pendingRequests": 7}
    torchserve.add("ko", "1.0-ab", minWorkers=3, workers=workers, jobQueueStatus=queue)
    found = management.describe("ko")
    assert found == Registered("ko", "1.0-ab", 64, 100, 3, 2, 7)
    assert found.is_ready


@pytest.mark.parametrize("number", [100, 250])
def test_names_that_are_on_several_pages_are_all_listed(
    torchserve: FakeTorchServe, management: Management, number: int
):
    names = [f"model-{i:03}" for i in range(number)]
    for name in names:
        torchserve.add(name)
    assert management.names() == names


def test_a_model_is_registered_once_scaled_and_unregistered(
    torchserve: FakeTorchServe, management: Management
):
    torchserve.store = {"ko.mar": "1.0-ab"}
    management.register("ko.mar", "ko", batch_size=8, max_batch_delay=5, workers=2)
    made = dict(torchserve.models["ko"])
    CALLS["register"](management)
    assert torchserve.models["ko"] == made
    management.scale("ko", 2)
    management.scale("ko", 2, wait=True)
    management.unregister("ko", "1.0-ab")
    assert torchserve.models == {}
    first, _, *others = torchserve.calls
    assert first == (
        "POST /models?url=ko.mar&model_name=ko&batch_size=8&max_batch_delay=5"
        "&initial_workers=2&synchronous=false"
    )
    assert others == [
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
    torchserve: FakeTorchServe,
    management: Management,
    status: int,
    body: bytes,
    quoted: str,
):
    torchserve.instead = (status, body)
    for call in CALLS.values():
        with pytest.raises(ManagementError) as error:
            call(management)
        assert quoted in str(error.value)
        assert torchserve.url in str(error.value)
        assert torchserve.key not in str(error.value)


def test_the_key_is_read_again_at_every_call(
    torchserve: FakeTorchServe, management: Management, key_file: Path
):
    torchserve.add("ko")
    assert management.names() == ["ko"]
    torchserve.key = "new-key"
    with pytest.raises(ManagementError, match="InvalidKeyException"):
        management.names()
    key_file.write_text(json.dumps({"management": {"key": "new-key"}}))
    assert management.names() == ["ko"]
    torchserve.key = ""  # without tokens
    key_file.unlink()
    assert management.names() == ["ko"]


def test_a_key_file_that_cannot_be_used_is_no_key(tmp_path: Path):
    path = tmp_path / "key_file.json"
    assert read_key(path, "management") == ""
    for content in ("", '{"management": {"ke', "{}", '{"management": {}}', "[]"):
        path.write_text(content)
        assert read_key(path, "management") == ""
