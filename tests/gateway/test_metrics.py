"""The counters and gauges of `GET /metrics`."""

import io
from threading import Thread

import gevent
import numpy as np
import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import Telemetry
from tests.gateway.conftest import TASKS

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}


def read(text: str) -> dict[tuple[str, ...], float]:
    """Return metrics by name and label values, in the order of the labels' names."""
    return {
        (one.name, *(one.labels[label] for label in sorted(one.labels))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def select(client: FlaskClient, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of one metric by their label values."""
    metrics = read(client.get("/metrics").text)
    return {key[1:]: value for key, value in metrics.items() if key[0] == name}


def test_requests_are_counted_and_timed_by_route_and_status(client):
    for path in ("/healthz", "/healthz", "/nowhere/secret", "/translate"):
        client.get(path)
    client.post("/translate", data=b"[")
    assert select(client, "babelgate_requests_total") == {
        ("/healthz", "200"): 2,
        ("none", "404"): 1,
        ("none", "405"): 1,
        ("/translate", "400"): 1,
    }
    response = client.get("/metrics")
    assert response.content_type.startswith("text/plain")
    metrics = read(response.text)
    assert metrics["babelgate_request_seconds_count", "/healthz"] == 2
    assert metrics["babelgate_request_seconds_bucket", "+Inf", "/healthz"] == 2
    assert metrics["babelgate_request_seconds_sum", "/healthz"] > 0


def test_counts_are_written_though_the_first_ones_thread_runs_no_loop():
    telemetry = Telemetry()
    first = Thread(target=telemetry.count_answer, args=("/translate", None, 200, 1.0))
    first.start()
    first.join()
    gevent.sleep(0.1)
    telemetry.count_answer("/translate", None, 200, 1.0)
    gevent.sleep(0.1)
    name = "babelgate_request_seconds_count"
    found = telemetry.registry.get_sample_value(name, {"route": "/translate"})
    assert (found, telemetry._times) == (2, [])


def test_requests_to_translate_are_counted_by_target_and_status(client, torchserve):
    client.post("/", json=WANTED)
    client.post("/translate", json=WANTED | {"tgt_lang": "pt-BR"})
    torchserve.will("unavailable", "row-too-long", "row-broken")
    torchserve.queued = 4096
    for _ in range(3):
        client.post("/", json=WANTED)
    client.post("/", json=WANTED | {"tgt_lang": "tlh"})
    client.post("/", data=b"[")
    client.post("/identify", json={"text": "Hello"})
    counted = select(client, "babelgate_translation_requests_total")
    # Shown from the start, so that a first error is a rise from zero.
    assert counted["503", "zh"] == counted["429", "none"] == 0
    assert {labels: count for labels, count in counted.items() if count} == {
        ("200", "ko"): 1,
        ("200", "pt"): 1,
        ("429", "ko"): 1,
        ("422", "ko"): 1,
        ("500", "ko"): 1,
        ("422", "none"): 1,
        ("400", "none"): 1,
    }


def test_texts_and_characters_are_counted_by_target(client, torchserve):
    client.post("/", json=WANTED | {"src_text": ["abc", "안녕"], "tgt_lang": "pt-BR"})
    torchserve.will("row-too-long")
    client.post("/", json=WANTED)
    assert select(client, "babelgate_texts_total") == {("pt",): 2}
    assert select(client, "babelgate_characters_total") == {("pt",): 5}


def test_images_and_frames_are_counted_by_task(client, torchserve):
    array = io.BytesIO()
    np.save(array, np.zeros((5, 2, 2, 3), np.uint8))
    client.post("/caption", data=array.getvalue())
    client.post("/caption", data=b"\xff\xd8\xff")
    client.post("/classify", data=b"\xff\xd8\xff")
    torchserve.will("row-no-image")
    client.post("/classify", data=b"\xff\xd8\xff")
    counted = select(client, "babelgate_frames_total")
    assert counted == {("captioning",): 6, ("classification",): 1, ("detection",): 0}
    assert select(client, "babelgate_requests_total")["/classify", "422"] == 1


@pytest.mark.parametrize("field", ["src_lang", "src_text", "tgt_lang"])
def test_nothing_that_a_client_writes_becomes_a_label(client, field):
    client.post("/", json=WANTED | {field: "sesame"})
    client.get("/sesame?sesame=sesame", headers={"X-Request-ID": "sesame"})
    client.open("/translate", method="SESAME")
    assert "sesame" not in client.get("/metrics").text.lower()


def test_every_language_and_task_says_whether_it_is_ready(client, torchserve):
    torchserve.loading |= {"pt", "captioning"}
    torchserve.unregistered |= {"en", "classification"}
    ready = select(client, "babelgate_language_ready")
    assert ready == {("ko",): 1, ("en",): 0, ("zh",): 1, ("pt",): 0}
    # Translation is not ready without pt.
    expected = dict.fromkeys(("translation", *TASKS), 0) | {"detection": 1}
    ready = select(client, "babelgate_task_ready")
    assert ready == {(task,): value for task, value in expected.items()}


def test_queues_and_batch_sizes_are_those_of_registered_models(client, torchserve):
    torchserve.unregistered.add("en")
    torchserve.queued = 7
    registered = [(model,) for model in ("ko", "zh", "pt", *TASKS)]
    for name, value in (("babelgate_queued_rows", 7), ("babelgate_batch_size", 64)):
        assert select(client, name) == dict.fromkeys(registered, value)
    assert set(select(client, "babelgate_waiting_rows")) == {*registered, ("en",)}
