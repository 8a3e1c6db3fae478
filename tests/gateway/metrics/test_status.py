"""The values that `GET /metrics` looks up when it is asked: languages, tasks, queues."""

from tests.gateway.conftest import TASKS
from tests.gateway.metrics.test_registry import select


def test_every_language_says_whether_it_is_ready(client, torchserve):
    torchserve.loading.add("pt")
    torchserve.unregistered.add("en")
    ready = select(client, "babelgate_language_ready")
    assert ready == {("ko",): 1, ("en",): 0, ("zh",): 1, ("pt",): 0}


def test_every_task_says_whether_it_is_ready(client, torchserve):
    torchserve.loading |= {"pt", "captioning"}
    torchserve.unregistered.add("classification")
    ready = select(client, "babelgate_task_ready")
    # Translation into pt is not.
    expected = dict.fromkeys(("translation", *TASKS), 0) | {"detection": 1}
    assert ready == {(task,): value for task, value in expected.items()}


def test_queue_and_batch_size_are_those_of_registered_models(client, torchserve):
    torchserve.unregistered.add("en")
    torchserve.queued = 7
    registered = [(model,) for model in ("ko", "zh", "pt", *TASKS)]
    for name, value in (("babelgate_queued_rows", 7), ("babelgate_batch_size", 64)):
        assert select(client, name) == dict.fromkeys(registered, value)


def test_rows_that_wait_in_the_gateway_are_counted(client):
    models = {model for (model,) in select(client, "babelgate_waiting_rows")}
    assert models == {"ko", "en", "zh", "pt", *TASKS}


def test_without_torchserve_no_language_is_ready(make_client):
    client = make_client(management_url="http://127.0.0.1:9")
    assert select(client, "babelgate_language_ready")["ko",] == 0
    assert ("ko",) not in select(client, "babelgate_queued_rows")
