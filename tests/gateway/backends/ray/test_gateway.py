"""A gateway before a cluster: in this process, and as Gunicorn runs it with gevent's
sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from flask.testing import FlaskClient

from gateway.app import create_app
from gateway.settings import Settings
from tests.e2e.real_stack import wait_until
from tests.gateway.backends.ray.fake_cluster import FakeIngress, write_key
from tests.gateway.conftest import LANGUAGES, TASKS, MakeClient
from tests.gateway.test_gunicorn import WANTED, post, serve
from tests.scripted_server import LIMIT_S

Running = tuple[str, list[FakeIngress]]
TRANSLATED = (200, '{"translated":"ko:Hello"}\n')


@pytest.fixture
def client(
    make_client: MakeClient, ingress: list[FakeIngress], key_file: Path
) -> FlaskClient:
    urls = ",".join(each.url for each in ingress)
    return make_client(backend="ray", ray_urls=urls, ray_key_file=key_file)


def test_a_translation_comes_from_the_cluster(client):
    assert client.post("/translate", json=WANTED).json == {"translated": "ko:Hello"}


def test_all_is_ready_where_every_model_has_a_replica_that_is(client):
    assert client.get("/readyz").json == {
        "status": "ready",
        "languages": list(LANGUAGES),
        "tasks": ["translation", *TASKS],
    }


def test_what_is_not_ready_is_named_with_its_reason(client, ingress):
    for each in ingress:
        each.state = "loading"
    answer = client.get("/readyz")
    assert answer.status_code == 503
    missing = [*LANGUAGES, *TASKS]
    assert answer.json["missing"] == missing
    assert answer.json["reasons"] == dict.fromkeys(
        missing, "The replica says not-ready."
    )


def test_this_machines_gpus_do_not_matter(tmp_path, monkeypatch):
    path = tmp_path / "map.json"
    path.write_text('{"cuda_id": {"ko": "7"}, "gpus": 1}')
    app = create_app(
        Settings(backend="ray", map=path, database_url=f"sqlite:///{tmp_path}/db")
    )
    (language,) = app.test_client().get("/languages").get_json()
    assert language["device"] == "7"


@contextmanager
def serve_before_cluster(folder: Path) -> Iterator[Running]:
    """Gunicorn's URL, and the two addresses that it asks."""
    both = [FakeIngress(), FakeIngress()]
    variables = {
        "GATEWAY_BACKEND": "ray",
        "BABELGATE_RAY_URLS": ",".join(each.url for each in both),
        "BABELGATE_RAY_KEY_FILE": str(write_key(folder / "key", "first")),
        "BABELGATE_RUN_DIR": str(folder / "run"),
    }
    (folder / "run").mkdir()
    try:
        with serve(folder, **variables) as (url, _):
            yield url, both
    finally:
        for each in both:
            each.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve_before_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def running(shared: Running) -> Iterator[Running]:
    """The same for all tests that leave both addresses there."""
    yield shared
    for each in shared[1]:
        each.will()
        each.calls.clear()
        each.has_left.clear()
        each.state = "ready"


def ask(url: str) -> tuple[int, str]:
    """A connection stays open for as long as its answer is kept, and Gunicorn's stop waits."""
    answer = post(url)
    return answer.status_code, answer.text


def ask_meanwhile(url: str, harm: Callable[[], None]) -> set[tuple[int, str]]:
    """The different answers to 16 clients, to whom something happens in between."""
    for _ in range(10):
        post(url)
    with ThreadPoolExecutor(16) as pool:
        before = [pool.submit(ask, url) for _ in range(48)]
        harm()
        after = [pool.submit(ask, url) for _ in range(48)]
        return {asked.result(LIMIT_S) for asked in before + after}


@pytest.mark.slow
def test_clients_notice_nothing_of_an_ingress_that_is_gone(tmp_path):
    with serve_before_cluster(tmp_path) as (url, ingress):
        answers = ask_meanwhile(url, ingress[0].stop)
    assert answers == {TRANSLATED}
    assert ingress[0].calls


@pytest.mark.slow
def test_clients_notice_nothing_of_replicas_that_end(running):
    url, ingress = running
    answers = ask_meanwhile(url, lambda: ingress[0].will(*["crash", "close"] * 8))
    assert answers == {TRANSLATED}


@pytest.mark.faults
def test_no_client_waits_beyond_its_deadline_for_a_link_that_is_cut(running):
    """The kernel notices it after seconds; then the other address is asked."""
    url, ingress = running
    for _ in range(10):
        post(url)
    with ingress[0].cut(), ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(ask, [url] * 64))
    assert all(each.calls for each in ingress)
    assert answers == {TRANSLATED}


@pytest.mark.slow
def test_a_row_whose_client_has_gone_is_taken_from_its_replica(running):
    url, ingress = running
    for each in ingress:
        each.will("wait")
    with pytest.raises(requests.ReadTimeout):
        requests.post(url, json=WANTED, timeout=0.5)
    wait_until(lambda: any(each.has_left.is_set() for each in ingress))


@pytest.mark.slow
def test_readiness_is_found_for_all_models_at_the_same_time(running):
    url, ingress = running
    assert requests.get(f"{url}/readyz", timeout=LIMIT_S).json()["status"] == "ready"
    for each in ingress:
        each.state = "crash"
    # The last look counts for a while.
    wait_until(lambda: not requests.get(f"{url}/readyz", timeout=LIMIT_S).ok)
    answer = requests.get(f"{url}/readyz", timeout=LIMIT_S)
    assert answer.json()["reasons"]["ko"] == "No replica answers (status 500)."
