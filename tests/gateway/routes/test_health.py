"""`GET /healthz` asks nobody; `GET /readyz` asks for every language."""

from __future__ import annotations


def test_a_process_is_alive_without_torchserve(make_client, torchserve):
    client = make_client(management_url="http://127.0.0.1:9")
    response = client.get("/healthz")
    assert (response.status_code, response.json) == (200, {"status": "alive"})
    assert torchserve.looks == 0


def test_it_is_ready_when_every_language_is(client):
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json == {"status": "ready", "languages": ["ko", "en", "zh", "pt"]}


def test_it_names_the_languages_that_are_not_ready(client, torchserve):
    torchserve.loading.add("pt")
    torchserve.unregistered.add("en")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert response.json["missing"] == ["en", "pt"]
    assert "en, pt" in response.json["detail"]


def test_nothing_is_ready_while_torchserve_is_down(make_client):
    response = make_client(management_url="http://127.0.0.1:9").get("/readyz")
    assert response.status_code == 503
    assert response.json["missing"] == ["ko", "en", "zh", "pt"]


def test_readiness_survives_new_keys(client, torchserve):
    torchserve.rotate_keys("second")
    assert client.get("/readyz").status_code == 200
