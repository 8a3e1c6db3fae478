"""`GET /healthz` asks nobody; `GET /readyz` asks for every language and every task."""

from tests.gateway.conftest import LANGUAGES, TASKS


def test_a_process_is_alive_without_torchserve(make_client, torchserve):
    client = make_client(management_url="http://127.0.0.1:9")
    response = client.get("/healthz")
    assert (response.status_code, response.json) == (200, {"status": "alive"})
    assert torchserve.looks == 0


def test_nothing_is_ready_while_torchserve_is_down(make_client):
    response = make_client(management_url="http://127.0.0.1:9").get("/readyz")
    assert response.status_code == 503
    assert response.json["missing"] == [*LANGUAGES, *TASKS]


def test_readiness_survives_new_keys(client, torchserve):
    torchserve.rotate_keys("second")
    assert client.get("/readyz").status_code == 200
