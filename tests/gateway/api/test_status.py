"""`GET /status`: totals that add up, from all processes and from the workers."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.gateway.conftest import LANGUAGES, TASKS

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}


def read(client: FlaskClient) -> dict[str, Any]:
    """Read the served models, by language or task."""
    served = client.get("/status").get_json()["served"]
    return {one["language"] or one["task"]: one for one in served}


def test_everything_is_listed_with_its_model(client):
    served = read(client)
    assert list(served) == [*LANGUAGES, *TASKS]
    found = served["ko"]
    assert (found["task"], found["model"]) == ("translation", "ko")
    assert (found["device"], found["workers"]) == ("cpu", 1)
    assert (found["ready"], found["batch_size"]) == (True, 64)
    assert (found["waiting_rows"], found["queued_rows"]) == (0, 0)
    assert served["captioning"]["language"] is None


def test_requests_and_errors_are_counted_and_timed(client, torchserve):
    client.post("/translate", json=WANTED)
    torchserve.will("row-broken", "row-too-long")
    client.post("/translate", json=WANTED)
    client.post("/", json=WANTED)
    client.post("/v2/translate", json={"text": ["Hello"], "target_lang": "KO"})
    client.post("/caption", data=b"\xff\xd8\xff")
    served = read(client)
    assert (served["ko"]["requests"], served["ko"]["errors"]) == (4, 1)
    assert served["ko"]["latency"][-1] == 4
    assert served["captioning"]["requests"] == 1
    assert served["captioning"]["latency"][-1] == 1
    assert served["en"]["requests"] == 0


def test_buckets_are_those_that_the_answer_names(client):
    found = client.get("/status").json
    bounds = found["bounds_s"]
    assert sorted(bounds) == bounds
    lengths = {len(one["latency"]) for one in found["served"]}
    assert lengths == {len(bounds) + 1}


def test_rows_and_batches_are_those_of_the_workers(client, torchserve):
    torchserve.metrics = (
        '# TYPE BabelgateRows counter\nBabelgateRows{ModelName="ko",Level="M"} 12.0\n'
        '# TYPE BabelgateBatches counter\nBabelgateBatches{ModelName="ko"} 3.0\n'
    )
    served = read(client)
    assert (served["ko"]["rows"], served["ko"]["batches"]) == (12, 3)
    assert (served["en"]["rows"], served["en"]["batches"]) == (None, None)


def test_ray_writes_the_workers_counters_in_its_own_way(make_client, torchserve):
    torchserve.metrics = (
        "# TYPE ray_tasks gauge\nray_tasks 1.0\n"
        "# TYPE ray_babelgaterows_total counter\n"
        'ray_babelgaterows_total{ModelName="ko",WorkerId="a"} 12.0\n'
        'ray_babelgaterows_total{ModelName="ko",WorkerId="b"} 5.0\n'
        'ray_babelgatebatches_total{ModelName="ko",WorkerId="a"} 3.0\n'
    )
    urls = {"ray_urls": torchserve.url, "metrics_url": torchserve.url}
    served = read(make_client(backend="ray", **urls))
    assert (served["ko"]["rows"], served["ko"]["batches"]) == (17, 3)


def test_without_a_page_that_counts_all_nothing_is_told(make_client, torchserve):
    urls = {"ray_urls": torchserve.url, "metrics_url": None}
    served = read(make_client(backend="ray", **urls))
    assert (served["ko"]["rows"], served["ko"]["batches"]) == (None, None)
    assert torchserve.metrics_looks == 0


@pytest.mark.parametrize(
    "page", [None, "surprise {", "x" * 10], ids=["none", "bad", "x"]
)
def test_without_the_workers_counters_the_rest_is_told(client, torchserve, page):
    torchserve.metrics = page
    assert read(client)["ko"]["rows"] is None


def test_many_who_look_cost_one_look(client, torchserve):
    for _ in range(5):
        client.get("/status")
    assert torchserve.metrics_looks == 1


def test_a_model_that_nobody_answers_for_is_not_ready(client, torchserve):
    torchserve.unregistered.add("ko")
    found = read(client)["ko"]
    assert (found["ready"], found["batch_size"]) == (False, None)
