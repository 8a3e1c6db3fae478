"""The gateway's answers to every fault of a cluster; its records of addresses and replicas."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import catalog
from catalog import Catalog
from gateway.backends import ray
from gateway.backends.backend import Capacity, ModelState, RowRequest, write_row
from gateway.backends.ray import (
    Address,
    Addresses,
    AttemptTimeout,
    GatewayKey,
    ModelReplicas,
    RayBackend,
)
from gateway.errors import ClientGone, DeadlineExceeded, NotReady, Overloaded
from tests.e2e.real_stack import wait_until
from tests.gateway.backends.fake_cluster import FakeIngress, write_key
from tests.scripted_server import LIMIT_S

ITEM = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}
TRANSLATED = {"translated": "ko:Hello"}


@pytest.fixture
def models(map_path: Path) -> Catalog:
    return catalog.load(map_path, is_cluster=True)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return write_key(tmp_path / "key", "first")


@pytest.fixture
def ingress() -> Iterator[list[FakeIngress]]:
    """Two addresses, in the order in which the backend tries them."""
    with FakeIngress() as first, FakeIngress() as second:
        yield [first, second]


@pytest.fixture
def backend(ingress, key_file, models, monkeypatch) -> RayBackend:
    """A backend that always tries the first address first."""
    monkeypatch.setattr("random.sample", lambda population, k: list(population))
    urls = [each.url for each in ingress]
    return RayBackend(urls, key_file, models.models, connections=4)


def predict(backend: RayBackend, *, timeout_s: float = 60):
    return backend.predict("ko", write_row(ITEM), deadline=time.monotonic() + timeout_s)


def test_a_replica_gets_the_row_the_key_and_the_time_of_the_attempt(backend, ingress):
    body = b'{"src_text": "a", "tgt_lang": "b"}'
    row = RowRequest(body, "application/json", {"top_k": "5"})
    backend.predict("ko", row, deadline=time.monotonic() + 60)
    (call,) = ingress[0].calls
    assert (call.model, call.body) == ("ko", row.body)
    headers = {name.lower(): value for name, value in call.headers.items()}
    assert 0 < int(headers.pop("x-remaining-ms")) <= 60_000
    assert headers.pop("host")
    assert headers == {
        "authorization": "Bearer first",
        "content-type": "application/json",
        "content-length": str(len(row.body)),
        "x-parameters": "top_k=5",
    }


FAULTS = ["crash", "busy", "unserved", "close", "cut", "loading", "refuse-key", "late"]


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_the_other_address_is_asked(backend, ingress, fault):
    ingress[0].will(fault)
    assert predict(backend) == TRANSLATED
    assert [len(each.calls) for each in ingress] == [1, 1]


@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "unserved"])
def test_a_single_address_is_asked_again_on_a_new_connection(
    ingress, key_file, models, monkeypatch, fault
):
    """After a reload, HAProxy's old process keeps its connections and its old replicas."""
    monkeypatch.setattr(ray, "_FRESH_S", 0.0)
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
        (["refuse-key"] * 3, 3, "do not accept the gateway's key"),
        (["unserved"] * 2, 2, "does not serve ko yet"),
    ],
    ids=["ended", "loading at last", "another key", "no application"],
)
def test_a_row_that_fails_everywhere_ends(
    backend, ingress, monkeypatch, faults, asked, says
):
    monkeypatch.setattr(ray, "_LAST_PAUSE_S", 0.0)
    ingress[0].will(*faults[::2])
    ingress[1].will(*faults[1::2])
    with pytest.raises(NotReady, match=says):
        predict(backend)
    assert sum(len(each.calls) for each in ingress) == asked


def test_a_full_queue_is_overload_with_the_replicas_own_time(backend, ingress):
    ingress[0].will("full")
    with pytest.raises(Overloaded, match="queue-full") as caught:
        predict(backend)
    assert caught.value.headers["Retry-After"] == "7"
    assert ingress[1].calls == []


def test_a_model_that_is_not_loaded_in_an_attempts_time_gets_all_that_is_left(
    backend, ingress
):
    ingress[0].will("unloaded")
    assert predict(backend, timeout_s=20) == TRANSLATED
    (first,), (second,) = (each.calls for each in ingress)
    assert int(first.headers["X-Remaining-Ms"]) <= 10_000
    assert int(second.headers["X-Remaining-Ms"]) > 10_000
    for each in ingress:
        each.will("unloaded")
    with pytest.raises(Overloaded, match="unloaded") as caught:
        predict(backend)
    assert caught.value.headers["Retry-After"] == "9"


def test_a_new_key_is_read_again_and_costs_no_row(backend, ingress, key_file):
    predict(backend)
    write_key(key_file, "second")
    for each in ingress:
        each.key = "second"
    assert predict(backend) == TRANSLATED
    assert [len(each.calls) for each in ingress] == [3, 0]


def test_an_address_that_is_gone_costs_no_row_and_is_avoided(backend, ingress, caplog):
    predict(backend)
    ingress[0].stop()
    for _ in range(5):
        assert predict(backend) == TRANSLATED
    assert len(ingress[1].calls) == 5
    assert caplog.messages == [f"{ingress[0].url} cannot be reached; using the others"]
    ingress[1].stop()
    with pytest.raises(NotReady, match="No ingress of the cluster can be reached"):
        predict(backend)


def test_silence_is_borne_once_and_never_beyond_the_deadline(backend, ingress):
    for each in ingress:
        each.will("hang")
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        predict(backend, timeout_s=0.4)
    assert time.monotonic() - began >= 0.4
    assert [len(each.calls) for each in ingress] == [1, 1]


def test_nobody_waits_for_a_model_without_replicas(backend, ingress, monkeypatch):
    """Serve's own proxy answers neither a row nor a request for the state."""
    monkeypatch.setattr(ray, "_QUIET_S", 0.05)
    monkeypatch.setattr(ray, "_LOOK_S", 0.05)
    for each in ingress:
        each.state = "hang"
    ingress[0].will("hang")
    backend._replicas["ko"]._breaker.rest_s = 10_000.0
    for _ in range(3):
        with pytest.raises(NotReady, match="The replicas for ko do not answer"):
            predict(backend, timeout_s=10_000)
    assert sum(len(each.calls) for each in ingress) == 1
    backend._replicas["ko"]._breaker.rests_until = 1.0
    monkeypatch.setattr(ray, "_QUIET_S", 60.0)
    assert predict(backend) == TRANSLATED


def test_a_row_with_little_time_uses_up_no_try(backend, ingress):
    breaker = backend._replicas["ko"]._breaker
    breaker.rest_s, breaker.rests_until = 10_000.0, 1.0
    for each in ingress:
        each.will("hang")
    with pytest.raises(DeadlineExceeded):
        predict(backend, timeout_s=0.05)
    assert predict(backend) == TRANSLATED


def test_a_slow_answer_of_a_model_is_waited_for(backend, ingress, monkeypatch):
    monkeypatch.setattr(ray, "_QUIET_S", 0.05)
    ingress[0].will("wait-for-look")
    assert predict(backend, timeout_s=10_000) == TRANSLATED
    assert (ingress[0].looks, ingress[1].calls) == (1, [])


def test_a_row_whose_time_is_up_or_that_was_given_up_is_not_sent(backend, ingress):
    with pytest.raises(DeadlineExceeded):
        predict(backend, timeout_s=-1)
    row = write_row(ITEM)
    row.cancellation.cancel()
    with pytest.raises(ClientGone):
        backend.predict("ko", row, deadline=time.monotonic() + 60)
    assert ingress[0].calls == []


def test_a_row_whose_client_has_gone_is_taken_from_its_replica(backend, ingress):
    ingress[0].will("wait")
    row, deadline = write_row(ITEM), time.monotonic() + 60
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(backend.predict, "ko", row, deadline=deadline)
        wait_until(lambda: row.cancellation.stop is not None)
        row.cancellation.cancel()
        assert isinstance(asked.exception(LIMIT_S), ClientGone)
    assert ingress[0].has_left.wait(LIMIT_S)
    assert ingress[1].calls == []


@pytest.mark.parametrize(
    ("names", "count"), [("a", 2), ("abc", 3), ("abcabc", 3), ("abcdef", 4)]
)
def test_the_capacity_is_that_of_replicas_that_are_sure_or_have_answered_lately(
    backend, ingress, key_file, map_path, monkeypatch, models, names, count
):
    ko = models.route("translation", "ko")
    assert backend.capacity(ko).workers == 1, "without a number, those of the map"
    replicas = {"cluster": {"translation": {"replicas": [2, 4]}}}
    map_path.write_text(json.dumps(json.loads(map_path.read_text()) | replicas))
    between_2_and_4 = catalog.load(map_path, is_cluster=True).models
    growing = RayBackend([ingress[0].url], key_file, between_2_and_4, connections=4)
    assert growing.capacity(ko) == Capacity(2, 2 * Capacity.most_bytes)
    for name in names:
        ingress[0].replica = name
        predict(growing)
    assert growing.capacity(ko) == Capacity(count, count * Capacity.most_bytes)
    monkeypatch.setattr(ray, "_REMEMBERED_S", 0.0)
    assert growing.capacity(ko).workers == 2


def name(address: Address) -> str:
    return address.channel.url[7]


def test_an_address_that_has_rested_is_tried_by_one_row(key_file, monkeypatch):
    urls = [f"http://{name}:7810" for name in "abc"]
    addresses, now_s = Addresses(urls, GatewayKey(key_file)), 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    first = Counter(name(addresses.arrange()[0]) for _ in range(300))
    assert min(first.values()) > 50
    for address in addresses.list_well_first():
        if name(address) in "ab":
            address.breaker.open()
    assert name(addresses.arrange()[0]) == "c"
    now_s += 60
    for _ in range(50):  # no row is sent
        assert name(addresses.list_well_first()[0]) == "c"
    tries = ["".join(map(name, addresses.arrange())) for _ in range(4)]
    assert sorted(tries[:2]) == ["acb", "bca"]
    assert {each[0] for each in tries[2:]} == {"c"}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("not-ready", "The replica is not ready."),
        ("loading", "The replica says not-ready."),
        ("crash", r"No replica answers \(status 500\)."),
        ("other", r"No replica answers \(status 200\)."),
        ("unserved", "The cluster does not serve this model."),
        ("hang", "No replica answers."),
    ],
)
def test_a_model_is_ready_or_says_why_not(backend, ingress, monkeypatch, state, reason):
    monkeypatch.setattr("gateway.backends.backend._STATES_S", 0.0)
    monkeypatch.setattr(ray, "_LOOK_S", 0.2)
    ingress[0].state = state
    ready = ModelState(True, batch_size=8, queued_rows=3)
    assert backend.states(["ko"]) == {"ko": ready}
    ingress[1].state = state
    found = backend.states(["ko"])["ko"]
    assert found
    assert (found.is_ready, found.batch_size, found.queued_rows) == (False, 64, 0)
    assert re.fullmatch(reason, found.reason)


@pytest.fixture
def replicas(models: Catalog, backend: RayBackend) -> ModelReplicas:
    return ModelReplicas(models.route("translation", "ko"), backend._addresses)


def test_looks_that_meet_a_replica_which_has_ended_refuse_no_row(replicas, monkeypatch):
    """Another replica answers soon."""
    monkeypatch.setattr(ray, "_find_state", lambda *_: ModelState(False, 1, 0))
    monkeypatch.setattr("time.sleep", lambda _: replicas.hear())
    probe = replicas.make_probe(30.0)
    assert probe
    probe.ask()
    replicas.check(60)


@pytest.mark.parametrize(("remaining_s", "asks"), [(7.1, True), (7.0, False)])
def test_a_row_with_little_time_does_not_spend_it_on_looks(replicas, remaining_s, asks):
    assert (replicas.make_probe(remaining_s) is not None) is asks


@pytest.mark.parametrize(
    ("answers", "remaining_s", "limit_s"),
    [
        pytest.param([], 30, 15, id="of a new model nothing is known"),
        pytest.param([(0.5, 50)], 0.8, 0.8, id="a quick model with little time"),
        pytest.param([(20, 50)], 30, 30, id="a slow model"),
        pytest.param([(20, 50)], 60, 30, id="a slow model with much time"),
        pytest.param([(0.5, 50), (15, 1)], 30, 15, id="one silence is no slowness"),
        pytest.param([(0.5, 50), (15, 8)], 30, 30, id="many silences are"),
        pytest.param([(5, 20), (12, 20)] * 3, 30, 30, id="one that varies"),
    ],
)
def test_an_attempt_gets_half_of_the_time_or_what_is_usual(
    answers, remaining_s, limit_s
):
    timeout = AttemptTimeout()
    for seconds, count in answers:
        for _ in range(count):
            timeout.learn(seconds)
    assert timeout.limit(remaining_s) == limit_s
