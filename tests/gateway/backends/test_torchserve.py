"""The gateway's answers to every fault of TorchServe."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import gevent
import pytest

from catalog import Model
from gateway.backends.backend import RowRequest, write_row
from gateway.backends.torchserve import TorchServeBackend
from gateway.errors import DeadlineExceeded, NotReady, Overloaded, RowProblem
from tests.gateway.conftest import make_model
from tests.gateway.fake_torchserve import FakeTorchServe
from torchserve_backend.management import Management

ITEM = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}


def make_backend(
    torchserve: FakeTorchServe, *models: Model, connections: int = 4
) -> TorchServeBackend:
    url, key_file = torchserve.url, torchserve.key_file
    management = Management(url, key_file)
    return TorchServeBackend(url, management, key_file, models, connections=connections)


@pytest.fixture
def backend(torchserve: FakeTorchServe) -> TorchServeBackend:
    """A backend that has already read its key."""
    backend = make_backend(torchserve)
    backend.predict("ko", write_row(ITEM), deadline=time.monotonic() + 60)
    torchserve.calls.clear()
    return backend


def predict(backend: TorchServeBackend, *, timeout_s: float = 60):
    return backend.predict("ko", write_row(ITEM), deadline=time.monotonic() + timeout_s)


def test_torchserve_gets_the_row_the_key_and_the_deadline(backend, torchserve):
    deadline = time.monotonic() + 60
    row = RowRequest(b"\xff\xd8\xff\0", "application/octet-stream", {"top_k": "5"})
    backend.predict("classification", row, deadline=deadline)
    (call,) = torchserve.calls
    assert (call.model, call.body) == ("classification", b"\xff\xd8\xff\0")
    assert call.parameters == {"top_k": "5"}
    assert call.headers["Authorization"] == "Bearer first-inference"
    assert call.headers["Content-Type"] == "application/octet-stream"
    assert call.headers["X-Deadline-Ms"] == str(int(deadline * 1000))


def test_a_key_file_that_is_not_written_yet_is_not_ready(backend, torchserve):
    torchserve.keys["inference"] = "new"
    torchserve.key_file.unlink()
    with pytest.raises(NotReady):
        predict(backend)
    torchserve.rotate_keys("third")
    assert predict(backend)["translated"] == "ko:Hello"


DEATHS = ["worker-died", "worker-killed", "batch-failed", "close", "cut"]


@pytest.mark.parametrize("death", DEATHS)
def test_a_died_worker_is_tried_once_more(backend, torchserve, death):
    torchserve.will(death)
    assert predict(backend)["translated"] == "ko:Hello"
    first, second = torchserve.calls
    assert first.port != second.port
    torchserve.will(death, death)
    with pytest.raises(NotReady, match="died or is being restarted"):
        predict(backend)
    assert len(torchserve.calls) == 4


def test_a_storm_of_refusals_asks_for_the_models_state_once(torchserve, monkeypatch):
    monkeypatch.setattr("gateway.backends.backend._STATES_S", 60.0)
    backend = make_backend(torchserve, connections=16)
    torchserve.will(*["unavailable"] * 16)

    def refuse(_: int) -> None:
        with pytest.raises(Overloaded):
            predict(backend)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(refuse, range(16)))
    assert torchserve.looks == 1


def test_a_request_that_finds_no_free_connection_waits_until_its_deadline(torchserve):
    backend = make_backend(torchserve, connections=1)
    torchserve.together = threading.Barrier(2)
    torchserve.will("together")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(predict, backend)
        torchserve.wait_for_calls(1)
        with pytest.raises(DeadlineExceeded, match="before a connection was free"):
            predict(backend, timeout_s=0.1)
        torchserve.together.wait(10)
        assert first.result()["translated"] == "ko:Hello"
    assert predict(backend)["translated"] == "ko:Hello"


@pytest.mark.parametrize(
    "behaviour", ["row-too-long", "worker-died", "hang", "not-json"]
)
def test_every_failure_gives_its_connection_back(torchserve, behaviour):
    backend = make_backend(torchserve, connections=1)
    torchserve.will(behaviour, behaviour)
    with pytest.raises((RowProblem, NotReady, DeadlineExceeded, ValueError)):
        predict(backend, timeout_s=0.3)
    torchserve.will()
    assert predict(backend)["translated"] == "ko:Hello"


def test_one_that_does_not_answer_is_asked_for_one_model_only(backend, torchserve):
    torchserve.keys["management"] = "not the one in the file"
    assert backend.states(["ko", "en", "zh"]) == {"ko": None, "en": None, "zh": None}
    assert torchserve.looks == 1


@pytest.fixture
def idling(torchserve: FakeTorchServe) -> TorchServeBackend:
    """A backend whose model is unloaded while idle, and loaded again for the next row."""
    return make_backend(torchserve, make_model(idle_unload_s=1), connections=8)


def test_an_unloaded_model_is_ready_and_many_requests_load_it_once(idling, torchserve):
    torchserve.unloaded.add("ko")
    state = idling.states(["ko"])["ko"]
    assert state is not None
    assert (state.is_ready, state.is_unloaded) == (True, True)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: predict(idling)["translated"], range(8)))
    assert answers == ["ko:Hello"] * 8
    assert torchserve.scaled == [("ko", 1)]


def test_requests_wait_until_the_model_is_loaded_and_the_first_says_how_long(
    idling, torchserve
):
    torchserve.unloaded.add("ko")
    torchserve.loading.add("ko")
    row = write_row(ITEM)
    idling._load_s["ko"] = load_s = 5.0

    def wait_for_looks() -> None:
        looks = torchserve.looks
        while torchserve.looks < looks + 3:
            time.sleep(0.01)

    with ThreadPoolExecutor() as pool:
        deadline = time.monotonic() + 2 * load_s
        waiting = pool.submit(idling.predict, "ko", row, deadline=deadline)
        wait_for_looks()
        late = pool.submit(predict, idling, timeout_s=load_s)
        wait_for_looks()
        assert not waiting.done()
        assert not late.done()
        torchserve.loading.clear()
        assert waiting.result() == late.result()
    assert row.cancellation.loading_s == idling._load_s["ko"] > 0


def test_a_deadline_before_the_model_is_loaded_is_overload(idling, torchserve):
    torchserve.loading.add("ko")
    with pytest.raises(Overloaded, match="is being loaded") as caught:
        predict(idling, timeout_s=0.3)
    assert int(caught.value.headers["Retry-After"]) >= 1


def test_time_that_ends_while_torchserve_keeps_the_row_is_overload(
    idling, torchserve, monkeypatch
):
    keep = Mock(side_effect=DeadlineExceeded("the model answered"))
    torchserve.loading.add("ko")
    monkeypatch.setattr(idling, "_post_with_key", keep)
    with pytest.raises(Overloaded, match="is being loaded"):
        predict(idling)


@pytest.mark.parametrize("behaviour", ["wait", "unavailable"])
@pytest.mark.parametrize("idle_s", [0, 1])
def test_no_row_waits_longer_for_the_state_of_its_model(
    torchserve, monkeypatch, behaviour, idle_s
):
    backend = make_backend(torchserve, make_model(idle_unload_s=idle_s))
    monkeypatch.setattr(backend._management, "describe", lambda _: gevent.sleep(10))
    torchserve.will(behaviour)
    began = time.monotonic()
    with pytest.raises((DeadlineExceeded, NotReady)):
        predict(backend, timeout_s=0.1)
    assert time.monotonic() < began + 5


def test_an_idling_model_with_a_full_queue_is_not_loaded(idling, torchserve):
    torchserve.will("unavailable")
    with pytest.raises(Overloaded, match="queue for ko is full"):
        predict(idling)
    assert torchserve.scaled == []


@pytest.mark.parametrize(
    ("is_unused", "scaled"),
    [(True, [("ko", 0)]), (False, [("ko", 0), ("ko", 1)])],
    ids=["unused", "used meanwhile"],
)
def test_only_an_unused_model_stays_unloaded(idling, torchserve, is_unused, scaled):
    (model,) = idling._models.values()
    torchserve.loading.add("ko")
    idling.unload(model, lambda: is_unused)
    assert torchserve.scaled == []
    torchserve.loading.clear()
    idling.unload(model, lambda: is_unused)
    assert torchserve.scaled == scaled
