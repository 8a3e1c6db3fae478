"""The counters of `GET /metrics`, in one process and in several."""

from __future__ import annotations

import io
import os
import sys
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics.registry import BUCKETS
from tests.gateway.conftest import LANGUAGES
from tests.programs import run

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}

#: One worker process: some requests, then the metrics of all processes so far.
WORKER = """
import sys
from gateway.app import create_app

client = create_app().test_client()
for _ in range(int(sys.argv[1])):
    client.get("/healthz")
    client.get("/nowhere")
client.post("/", data='{"src_lang": "en", "src_text": ["ab", "c"], "tgt_lang": "en"}')
print(client.get("/metrics").text)
"""


def read(text: str) -> dict[tuple[str, ...], float]:
    """Metrics by name and label values, these in the order of the labels' names."""
    return {
        (
            sample.name,
            *(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def select(client: FlaskClient, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one metric by their labels."""
    metrics = read(client.get("/metrics").text)
    return {key[1:]: value for key, value in metrics.items() if key[0] == name}


def test_requests_are_counted_by_route_and_status(client):
    for path in ("/healthz", "/healthz", "/nowhere/secret", "/translate"):
        client.get(path)
    client.post("/translate", data=b"[")
    assert select(client, "babelgate_requests_total") == {
        ("/healthz", "200"): 2,
        ("none", "404"): 1,
        ("none", "405"): 1,
        ("/translate", "400"): 1,
    }


def test_the_time_of_every_request_is_counted(client):
    client.get("/healthz")
    response = client.get("/metrics")
    assert response.content_type.startswith("text/plain")
    metrics = read(response.text)
    assert metrics["babelgate_request_seconds_count", "/healthz"] == 1
    assert metrics["babelgate_request_seconds_bucket", "+Inf", "/healthz"] == 1
    assert metrics["babelgate_request_seconds_sum", "/healthz"] > 0


def test_a_quantile_is_known_well_enough_where_service_levels_are_promised():
    assert {0.15, 0.25, 0.5, 1.0} <= set(BUCKETS)
    for low, high in pairwise(BUCKETS):
        assert low < high
        if 0.05 <= low < 3:
            assert high / low <= 1.5 + 1e-9


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
    assert {labels: count for labels, count in counted.items() if count} == {
        ("200", "ko"): 1,
        ("200", "pt"): 1,
        ("429", "ko"): 1,
        ("422", "ko"): 1,
        ("500", "ko"): 1,
        ("422", "none"): 1,
        ("400", "none"): 1,
    }


def test_a_languages_first_error_is_a_rise_from_zero(client):
    metrics = read(client.get("/metrics").text)
    statuses = ("200", "429", "500", "503", "504")
    for status, target in product(statuses, (*LANGUAGES, "none")):
        assert metrics["babelgate_translation_requests_total", status, target] == 0


def test_texts_and_characters_are_counted_by_target(client, torchserve):
    client.post("/", json=WANTED | {"src_text": ["abc", "안녕"], "tgt_lang": "pt-BR"})
    client.post("/", json=WANTED)
    torchserve.will("row-too-long")
    client.post("/", json=WANTED)
    metrics = read(client.get("/metrics").text)
    assert metrics["babelgate_texts_total", "pt"] == 2
    assert metrics["babelgate_characters_total", "pt"] == 5
    assert metrics["babelgate_texts_total", "ko"] == 1


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


@pytest.mark.slow
def test_the_counts_of_two_processes_are_added_up(tmp_path: Path, map_path: Path):
    folder = tmp_path / "metrics"
    folder.mkdir()
    environment = os.environ | {
        "PROMETHEUS_MULTIPROC_DIR": str(folder),
        "BABELGATE_MAP": str(map_path),
    }
    for count in (2, 3):
        said = run(sys.executable, "-c", WORKER, count, env=environment)
    # Looked up once, not added up.
    assert said.count('\nbabelgate_language_ready{target="ko"} 0.0\n') == 1
    metrics = read(said)
    assert metrics["babelgate_translation_requests_total", "200", "en"] == 2
    assert metrics["babelgate_requests_total", "/healthz", "200"] == 5
    assert metrics["babelgate_requests_total", "none", "404"] == 5
    assert metrics["babelgate_requests_total", "/metrics", "200"] == 1
    assert metrics["babelgate_request_seconds_count", "/healthz"] == 5
    assert metrics["babelgate_texts_total", "en"] == 4
    assert metrics["babelgate_characters_total", "en"] == 6
