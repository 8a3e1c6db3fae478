"""A gateway before a cluster, as Gunicorn runs it with gevent's sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from tests.e2e.real_stack import wait_until
from tests.gateway.backends.fake_cluster import FakeIngress, write_key
from tests.gateway.test_gunicorn import WANTED, serve

pytestmark = pytest.mark.slow

Running = tuple[str, list[FakeIngress]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Gunicorn's URL, and the two addresses that it asks."""
    folder = tmp_path_factory.mktemp("cluster")
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


def test_a_row_whose_client_has_gone_is_taken_from_its_replica(running):
    url, ingress = running
    for each in ingress:
        each.will("wait")
    with pytest.raises(requests.ReadTimeout):
        requests.post(url, json=WANTED, timeout=0.5)
    wait_until(lambda: any(each.has_left.is_set() for each in ingress))
    for each in ingress:
        each.will()
