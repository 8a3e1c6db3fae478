"""What `GET /metrics` looks up when it is asked: languages, tasks, queues."""

from tests.gateway.conftest import TASKS
from tests.gateway.test_telemetry import read


def test_every_language_says_whether_it_is_ready(client, torchserve):
    torchserve.loading.add("pt")
    torchserve.unregistered.add("en")
    metrics = read(client.get("/metrics").text)
    ready = {k[1]: v for k, v in metrics.items() if k[0] == "babelgate_language_ready"}
    assert ready == {"ko": 1, "en": 0, "zh": 1, "pt": 0}


def test_every_task_says_whether_it_is_ready(client, torchserve):
    torchserve.loading |= {"pt", "captioning"}
    torchserve.unregistered.add("classification")
    metrics = read(client.get("/metrics").text)
    ready = {k[1]: v for k, v in metrics.items() if k[0] == "babelgate_task_ready"}
    assert ready == {
        "translation": 0,  # into pt
        "captioning": 0,
        "classification": 0,
        "detection": 1,
    }


def test_queue_and_batch_size_are_those_of_registered_models(client, torchserve):
    torchserve.unregistered.add("en")
    torchserve.queued = 7
    metrics = read(client.get("/metrics").text)
    for name, value in (("babelgate_queued_rows", 7), ("babelgate_batch_size", 64)):
        found = {key[1]: value for key, value in metrics.items() if key[0] == name}
        assert found == dict.fromkeys(("ko", "zh", "pt", *TASKS), value)


def test_rows_that_wait_in_the_gateway_are_counted(client):
    metrics = read(client.get("/metrics").text)
    models = {key[1] for key in metrics if key[0] == "babelgate_waiting_rows"}
    assert models == {"ko", "en", "zh", "pt", *TASKS}


def test_without_torchserve_no_language_is_ready(make_client):
    metrics = read(
        make_client(management_url="http://127.0.0.1:9").get("/metrics").text
    )
    assert metrics["babelgate_language_ready", "ko"] == 0
    assert ("babelgate_queued_rows", "ko") not in metrics
