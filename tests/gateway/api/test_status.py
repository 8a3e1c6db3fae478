"""The state of the stack: health, readiness, tasks, languages, and the totals of all processes
and workers in `GET /status`.
"""

import json
from typing import Any

import gevent
import pytest
from flask.testing import FlaskClient
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

import catalog
from contract.dialects import FOREIGN, OURS
from contract.languages import find_tag
from gateway.api.google import PATH as GOOGLE
from tests.gateway.conftest import LANGUAGES, TASKS, write_map

WANTED = {"src_lang": "en", "src_text": "Hello", "tgt_lang": "ko"}
PNG = b"\x89PNG\r\n\x1a\n"


def read(client: FlaskClient) -> dict[str, Any]:
    """Read the served models, by language or task."""
    served = client.get("/status").get_json()["served"]
    return {one["language"] or one["task"]: one for one in served}


def test_two_may_ask_at_once_if_gevent_patches_nothing(client, tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    asked = [gevent.spawn(client.get, "/status") for _ in range(2)]
    gevent.joinall(asked, raise_error=True)
    assert [each.value.status_code for each in asked] == [200, 200]


def test_a_model_that_is_a_fallback_alone_is_seen(map_path, make_client, torchserve):
    fallback = {"model": "models/phrasebook-en-fr", "fallback": "models/phrasebook"}
    content = {"cuda_id": {"fr": "cpu"}, "translation": {"targets": {"fr": fallback}}}
    map_path.write_text(json.dumps(content))
    (spare,) = catalog.load(map_path).spares
    own, other = make_client().get("/status").get_json()["served"]
    assert (own["language"], other["language"]) == ("fr", None)
    assert (other["task"], other["model"]) == ("translation", spare.name)


def test_all_languages_of_nllb_are_listed_by_every_dialect(map_path, make_client):
    tags = [find_tag(code) for code in NLLB]
    map_path.write_text(json.dumps({"cuda_id": dict.fromkeys(tags, "cpu")}))
    client = make_client(management_url="http://127.0.0.1:9")
    found = client.get("/languages")
    codes = [row["code"] for row in found.json]
    assert len(set(codes)) == len(codes) == 207  # with variants and two other codes
    assert {*tags} < {*codes}
    assert "中文".encode() in found.data
    assert all(row["name"] and row["own_name"] for row in found.json)
    names = {row["code"]: row["name"] for row in found.json}
    assert names["ks-Deva"] == "Kashmiri (Devanagari)"
    assert names["ace-Arab"] == "Acehnese (Arabic)"
    assert names["acm"] == "Mesopotamian Arabic"
    assert [row["language"] for row in client.get("/status").json["served"]] == tags
    deepl = client.get("/v2/languages?type=target").json
    assert {"KS-DEVA", "ZH-HANT", "NB", "ACM"} < {row["language"] for row in deepl}
    google = client.get(f"{GOOGLE}/languages?target=de").json["data"]
    inside = {"data": {"target": "de"}}
    assert client.post(f"{GOOGLE}/languages", json=inside).json["data"] == google
    assert {"language": "kbp", "name": "Kabiyè"} in google["languages"]


@pytest.mark.parametrize("api", [OURS, *FOREIGN], ids=lambda api: api.name)
def test_every_dialect_takes_a_language_that_only_the_map_has(
    map_path, make_client, api
):
    map_path.write_text(json.dumps({"cuda_id": {"ks-Deva": "cpu"}}))
    client = make_client()
    for source, target in ("eng", "ks_Deva"), ("EN", "KS-DEVA"), ("en", "ks-Deva-IN"):
        fields = dict(zip(api.fields, ("Hi", source, target), strict=True))
        answer = client.post(api.translating[-1], json=fields)
        assert "ks-Deva:Hi" in answer.text


def test_the_licence_of_a_languages_model_is_told_where_it_is_known(
    map_path, make_client, tmp_path, monkeypatch
):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path))
    model = tmp_path / "hub/test/small"
    model.mkdir(parents=True)
    (model / "babelgate.json").write_text('{"languages": ["en", "ko"]}')
    content = {"cuda_id": {"ko": "cpu"}, "translation": {"model": "test/small"}}
    map_path.write_text(json.dumps(content))
    client = make_client(management_url="http://127.0.0.1:9")
    (row,) = client.get("/languages").json
    assert "license" not in row
    (model / "source.json").write_text('{"license": "cc-by-nc-4.0"}')
    (row,) = client.get("/languages").json
    assert row["license"] == "cc-by-nc-4.0"


def test_the_size_that_a_model_reads_is_told_once_its_directory_is_there(
    make_client, map_path
):
    write_map(map_path, (), ["detection"])
    client = make_client()
    (file,) = map_path.parent.glob("model/*.json")
    content = file.read_text()
    file.unlink()
    (found,) = client.get("/tasks").json
    assert "input" not in found
    file.write_text(content)
    (found,) = client.get("/tasks").json
    assert found["input"] == {"height": 6, "width": 8}


def test_a_model_that_miscounts_its_frames_is_a_fault_of_ours(client, torchserve):
    torchserve.will("miscount")
    response = client.post("/caption", data=PNG)
    assert response.status_code == 500
    assert response.json["type"] == "urn:babelgate:internal"


def test_everything_is_listed_with_its_model(client, torchserve):
    torchserve.unregistered.add("en")
    served = read(client)
    assert list(served) == [*LANGUAGES, *TASKS]
    assert served["captioning"]["language"] is None
    expected = {"task": "translation", "model": "ko", "device": "cpu", "workers": 1}
    expected |= {"ready": True, "batch_size": 64, "waiting_rows": 0, "queued_rows": 0}
    assert served["ko"].items() >= expected.items()
    assert (served["en"]["ready"], served["en"]["batch_size"]) == (False, None)


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


def test_workers_write_their_counters_in_the_way_of_torchserve_or_ray(
    make_client, torchserve, monkeypatch
):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # must be ignored here
    torchserve.metrics = (
        "# TYPE ray_tasks gauge\nray_tasks 1.0\n"
        "# TYPE ray_babelgaterows_total counter\n"
        'ray_babelgaterows_total{ModelName="ko",WorkerId="a"} 12.0\n'
        'ray_babelgaterows_total{ModelName="ko",WorkerId="b"} 5.0\n'
        'ray_babelgatebatches_total{ModelName="ko",WorkerId="a"} 3.0\n'
        'BabelgateRows{ModelName="en",Level="Model"} 4.0\n'
    )
    urls = {"ray_urls": torchserve.url, "metrics_url": torchserve.url}
    served = read(make_client(backend="ray", **urls))
    assert (served["ko"]["rows"], served["ko"]["batches"]) == (17, 3)
    assert served["en"]["rows"] == 4


def test_without_a_page_that_counts_all_nothing_is_told(make_client, torchserve):
    urls = {"ray_urls": torchserve.url, "metrics_url": None}
    served = read(make_client(backend="ray", **urls))
    assert (served["ko"]["rows"], served["ko"]["batches"]) == (None, None)
    assert torchserve.metrics_looks == 0


@pytest.mark.parametrize("page", [None, "surprise {"], ids=["none", "bad"])
def test_without_the_workers_counters_the_rest_is_told(client, torchserve, page):
    torchserve.metrics = page
    for _ in range(5):
        found = client.get("/status").json
    assert torchserve.metrics_looks == 1  # five requests, one look
    assert found["served"][0]["rows"] is None
    assert sorted(found["bounds_s"]) == found["bounds_s"]
    lengths = {len(one["latency"]) for one in found["served"]}
    assert lengths == {len(found["bounds_s"]) + 1}
