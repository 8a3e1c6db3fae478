"""The gateway's answers to everything that a cluster can do to it."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import catalog
from gateway.backends.backend import Capacity, RowRequest, write_row
from gateway.backends.ray.backend import RayBackend
from gateway.errors import (
    ClientGone,
    DeadlineExceeded,
    NotReady,
    Overloaded,
    RowProblem,
)
from tests.gateway.backends.ray.fake_cluster import FakeIngress, write_key
from tests.scripted_server import LIMIT_S

ITEM = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}
TRANSLATED = {"translated": "ko:Hello"}


def predict(backend: RayBackend, *, timeout_s: float = 60):
    return backend.predict("ko", write_row(ITEM), deadline=time.monotonic() + timeout_s)


def test_a_replica_gets_the_row_the_key_and_the_time_of_the_attempt(backend, ingress):
    row = RowRequest(
        b'{"src_text": "a", "tgt_lang": "b"}', "application/json", {"top_k": "5"}
    )
    backend.predict("ko", row, deadline=time.monotonic() + 60)
    (call,) = ingress[0].calls
    assert (call.path, call.body) == ("/predictions/ko", row.body)
    headers = {name.lower(): value for name, value in call.headers.items()}
    assert 0 < int(headers.pop("x-remaining-ms")) <= 60_000
    assert headers.pop("host")
    assert headers == {
        "authorization": "Bearer first",
        "content-type": "application/json",
        "content-length": str(len(row.body)),
        "x-parameters": "top_k=5",
    }


def test_one_connection_serves_many_rows(backend, ingress):
    for _ in range(5):
        assert predict(backend) == TRANSLATED
    assert len({call.port for call in ingress[0].calls}) == 1
    assert ingress[1].calls == []


FAULTS = ["crash", "busy", "unserved", "close", "cut", "loading", "refuse-key", "late"]


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_the_other_address_is_asked(backend, ingress, fault):
    ingress[0].will(fault)
    assert predict(backend) == TRANSLATED
    assert [len(each.calls) for each in ingress] == [1, 1]


@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "unserved"])
def test_a_single_address_is_asked_again(ingress, key_file, models, monkeypatch, fault):
    monkeypatch.setattr("gateway.backends.ray.backend._FRESH_S", 0.0)
    backend = RayBackend([ingress[0].url], key_file, models.models, connections=4)
    ingress[0].will(fault)
    assert predict(backend) == TRANSLATED
    first, second = ingress[0].calls
    assert first.port != second.port


@pytest.mark.parametrize(
    ("faults", "asked", "says"),
    [
        (["crash", "close", "cut"], 3, "replicas for ko do not answer"),
        (["crash", "crash", "loading"], 3, "The replica says not-ready"),
        (["refuse-key"] * 3, 3, "do not take the gateway's key"),
        (["unserved"] * 2, 2, "serves no model ko yet"),
    ],
    ids=["ended", "loading at last", "another key", "no application"],
)
def test_a_row_that_fails_everywhere_is_given_up(
    backend, ingress, monkeypatch, faults, asked, says
):
    monkeypatch.setattr("gateway.backends.ray.backend._PAUSE_S", 0.0)
    ingress[0].will(*faults[::2])
    ingress[1].will(*faults[1::2])
    with pytest.raises(NotReady, match=says):
        predict(backend)
    assert sum(len(each.calls) for each in ingress) == asked


def test_a_retry_uses_no_connection_from_before_a_reload(backend, ingress, monkeypatch):
    """HAProxy's old process keeps them, and its old list of replicas."""
    monkeypatch.setattr("gateway.backends.ray.backend._FRESH_S", 0.0)
    ingress[0].will("close")
    predict(backend)  # leaves a connection to the second address
    ingress[0].will("crash")
    assert predict(backend) == TRANSLATED
    first, second = ingress[1].calls
    assert first.port != second.port


@pytest.mark.parametrize(
    ("behaviour", "status", "slug"),
    [
        ("row-too-long", 422, "text-too-long"),
        ("row-broken", 500, "internal"),
        ("row-out-of-memory", 503, "out-of-memory"),
    ],
)
def test_what_a_handler_says_of_a_row_is_not_asked_twice(
    backend, ingress, behaviour, status, slug
):
    ingress[0].will(behaviour)
    with pytest.raises(RowProblem) as caught:
        predict(backend)
    assert (caught.value.status, caught.value.slug) == (status, slug)
    assert ingress[1].calls == []


def test_a_full_queue_is_overload_with_the_replicas_own_time(backend, ingress):
    ingress[0].will("full")
    with pytest.raises(Overloaded, match="queue-full") as caught:
        predict(backend)
    assert caught.value.headers["Retry-After"] == "7"
    assert ingress[1].calls == []


def test_a_new_key_is_read_again_and_costs_no_row(backend, ingress, key_file):
    predict(backend)
    write_key(key_file, "second")
    for each in ingress:
        each.key = "second"
    assert predict(backend) == TRANSLATED
    assert [len(each.calls) for each in ingress] == [3, 0]


def test_without_a_key_file_the_replicas_say_so(ingress, tmp_path, models):
    urls = [each.url for each in ingress]
    backend = RayBackend(urls, tmp_path / "none", models.models, connections=4)
    with pytest.raises(NotReady, match="do not take the gateway's key"):
        predict(backend)
    state = backend.states(["ko"])["ko"]
    assert state
    assert state.reason == "The replica says invalid-key."


def test_an_address_that_is_gone_costs_no_row_and_is_avoided(backend, ingress, caplog):
    predict(backend)
    ingress[0].stop()
    for _ in range(5):
        assert predict(backend) == TRANSLATED
    assert len(ingress[1].calls) == 5
    assert caplog.messages == [f"{ingress[0].url} cannot be reached; others are asked"]


def test_an_address_that_has_rested_is_tried_by_one_row(backend, ingress):
    resting = backend._addresses.list_well_first()[0].breaker
    resting.rest_s = 0.0
    port = int(ingress[0].url.rpartition(":")[2])
    ingress[0].stop()
    assert predict(backend) == TRANSLATED
    resting.rest_s = 600.0
    assert predict(backend) == TRANSLATED  # and it rests again
    with socket.create_server(("127.0.0.1", port)):
        assert predict(backend) == TRANSLATED
    assert len(ingress[1].calls) == 3


def test_with_no_address_there_is_nobody_to_ask(backend, ingress):
    for each in ingress:
        each.stop()
    with pytest.raises(NotReady, match="No ingress of the cluster can be reached"):
        predict(backend)


def test_an_address_that_takes_no_connection_costs_less_than_the_deadline(
    backend, ingress, monkeypatch
):
    monkeypatch.setattr("gateway.backends.http_pool._CONNECT_S", 0.05)
    with ingress[0].cut():
        assert predict(backend) == TRANSLATED
    assert ingress[0].calls == []


@pytest.fixture
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel counts these in seconds."""
    options = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 500),
    ]
    monkeypatch.setattr("gateway.backends.ray.addresses._OPTIONS", options)


def test_a_link_that_is_cut_during_an_answer_is_noticed_before_the_deadline(
    quick_probes, backend, ingress
):
    ingress[0].will("hang")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(predict, backend, timeout_s=10_000)
        ingress[0].wait_for_calls(1)
        with ingress[0].cut():
            assert asked.result() == TRANSLATED


def test_a_link_that_was_cut_before_the_row_is_noticed_before_the_deadline(
    quick_probes, backend, ingress
):
    predict(backend)
    with ingress[0].cut():
        assert predict(backend, timeout_s=10_000) == TRANSLATED


def test_silence_is_borne_once_and_never_beyond_the_deadline(backend, ingress):
    for each in ingress:
        each.will("hang")
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        predict(backend, timeout_s=0.4)
    assert time.monotonic() - began >= 0.4
    assert [len(each.calls) for each in ingress] == [1, 1]


def test_a_replica_that_hangs_does_not_use_up_the_deadline(backend, ingress):
    ingress[0].will("hang")
    assert predict(backend, timeout_s=2) == TRANSLATED


@pytest.fixture
def quick_probes_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that waits asks at once whether its model is there."""
    monkeypatch.setattr("gateway.backends.ray.replicas._QUIET_S", 0.05)


@pytest.fixture
def absent(ingress: list[FakeIngress], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says anything to the next row, nor to a look at the state: as Serve's own
    proxy does where a model has no replica."""
    monkeypatch.setattr("gateway.backends.ray.replicas._LOOK_S", 0.05)
    for each in ingress:
        each.state = "hang"
    ingress[0].will("hang")


def test_nobody_waits_for_a_model_without_replicas(
    quick_probes_of_models, absent, backend, ingress
):
    backend._replicas["ko"]._breaker.rest_s = 10_000.0
    for _ in range(3):
        with pytest.raises(NotReady, match="The replicas for ko do not answer"):
            predict(backend, timeout_s=10_000)
    assert sum(len(each.calls) for each in ingress) == 1


def test_a_model_that_comes_back_is_found(
    quick_probes_of_models, absent, backend, ingress, monkeypatch
):
    backend._replicas["ko"]._breaker.rest_s = 0.0
    with pytest.raises(NotReady):
        predict(backend, timeout_s=10_000)
    monkeypatch.setattr("gateway.backends.ray.replicas._QUIET_S", 60.0)
    assert predict(backend) == TRANSLATED


def test_a_slow_answer_of_a_model_that_is_there_is_waited_for(
    quick_probes_of_models, backend, ingress
):
    ingress[0].will("wait-for-look")
    assert predict(backend, timeout_s=10_000) == TRANSLATED
    assert (ingress[0].looks, ingress[1].calls) == (1, [])


def test_a_row_that_is_given_up_is_taken_from_its_replica(backend, ingress):
    row = write_row(ITEM)
    ingress[0].will("wait")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(backend.predict, "ko", row, deadline=time.monotonic() + 60)
        ingress[0].wait_for_calls(1)
        row.cancellation.cancel()
        with pytest.raises(ClientGone):
            asked.result()
    assert ingress[0].has_left.wait(LIMIT_S)
    assert ingress[1].calls == []


def test_a_row_that_was_given_up_before_is_not_sent(backend, ingress):
    row = write_row(ITEM)
    row.cancellation.cancel()
    with pytest.raises(ClientGone):
        backend.predict("ko", row, deadline=time.monotonic() + 60)
    assert ingress[0].calls == []


def test_a_row_that_has_its_answer_closes_nobodys_connection(backend, ingress):
    row = write_row(ITEM)
    backend.predict("ko", row, deadline=time.monotonic() + 60)
    row.cancellation.cancel()
    predict(backend)
    first, second = ingress[0].calls
    assert first.port == second.port


def test_a_row_whose_time_is_up_is_not_sent(backend, ingress):
    with pytest.raises(DeadlineExceeded):
        predict(backend, timeout_s=-1)
    assert ingress[0].calls == []


@pytest.fixture
def growing(ingress, key_file, map_path: Path) -> RayBackend:
    """Ray may give its model two to four replicas."""
    replicas = {"cluster": {"translation": {"replicas": [2, 4]}}}
    content = json.loads(map_path.read_text()) | replicas
    map_path.write_text(json.dumps(content))
    models = catalog.load(map_path, is_cluster=True).models
    return RayBackend([ingress[0].url], key_file, models, connections=4)


@pytest.mark.parametrize(
    ("names", "count"), [("a", 2), ("abc", 3), ("abcabc", 3), ("abcdef", 4)]
)
def test_the_capacity_is_that_of_replicas_that_are_sure_or_have_answered(
    growing, ingress, monkeypatch, models, names, count
):
    monkeypatch.setattr("gateway.backends.ray.replicas._COUNTED_S", 0.0)
    ko = models.route("translation", "ko")
    assert growing.capacity(ko) == Capacity(2, 2 * Capacity.most_bytes)
    for name in names:
        ingress[0].replica = name
        predict(growing)
    assert growing.capacity(ko) == Capacity(count, count * Capacity.most_bytes)


def test_a_replica_that_has_not_answered_lately_is_gone(
    growing, ingress, monkeypatch, models
):
    monkeypatch.setattr("gateway.backends.ray.replicas._COUNTED_S", 0.0)
    for name in "abc":
        ingress[0].replica = name
        predict(growing)
    monkeypatch.setattr("gateway.backends.ray.replicas._REMEMBERED_S", 0.0)
    assert growing.capacity(models.route("translation", "ko")).workers == 2


def test_without_a_number_in_the_map_there_are_as_many_replicas_as_workers(
    backend, models
):
    assert backend.capacity(models.route("translation", "ko")).workers == 1
