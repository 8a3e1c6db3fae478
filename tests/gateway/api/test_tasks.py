"""`GET /tasks`, and what a stack answers whose map has some tasks only."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import LANGUAGES, TASKS, write_map

ROUTES = {
    "translation": "/translate",
    "captioning": "/caption",
    "classification": "/classify",
    "detection": "/detect-objects",
}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def make_stack(make_client, map_path):
    def make(*tasks: str):
        languages = LANGUAGES if "translation" in tasks else ()
        write_map(map_path, languages, [task for task in tasks if task in TASKS])
        return make_client()

    return make


@pytest.mark.parametrize(
    "tasks", [("translation",), ("captioning",), TASKS, ("translation", "detection")]
)
def test_the_tasks_are_those_of_the_map(make_stack, tasks):
    found = make_stack(*tasks).get("/tasks").json
    assert [one["task"] for one in found] == list(tasks)
    assert all(one["ready"] for one in found)
    assert [one["route"] for one in found] == [f"POST {ROUTES[t]}" for t in tasks]


@pytest.mark.parametrize("missing", ROUTES)
def test_a_task_that_the_map_does_not_have_is_a_404_that_says_so(
    make_stack, torchserve, missing
):
    client = make_stack(*(task for task in ROUTES if task != missing))
    response = client.post(ROUTES[missing], data=PNG)
    assert response.status_code == 404
    assert response.json["type"] == "urn:babelgate:task-not-served"
    assert response.json["detail"] == (
        f'This stack does not serve {missing}: its map has no section "{missing}".'
    )
    assert torchserve.calls == []
    assert client.get("/readyz").status_code == 200
    assert f'{{task="{missing}"}}' not in client.get("/metrics").text


def test_the_size_that_a_model_reads_is_told_once_its_directory_is_there(
    make_stack, map_path
):
    client = make_stack("detection")
    (file,) = map_path.parent.glob("model/*.json")
    content = file.read_text()
    file.unlink()
    (found,) = client.get("/tasks").json
    assert "input" not in found
    file.write_text(content)
    (found,) = client.get("/tasks").json
    assert found["input"] == {"height": 6, "width": 8}


def test_a_model_that_miscounts_its_frames_is_a_fault_of_ours(make_stack, torchserve):
    torchserve.will("miscount")
    response = make_stack("captioning").post("/caption", data=PNG)
    assert response.status_code == 500
    assert response.json["type"] == "urn:babelgate:internal"


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/caption", {}),
        ("/caption?top_k=3", {}),
        ("/classify", {"top_k": "5"}),
        ("/classify?top_k=3&threshold=1", {"top_k": "3"}),
        ("/detect-objects", {"threshold": "0.5"}),
        ("/detect-objects?threshold=1e-1", {"threshold": "0.1"}),
    ],
)
def test_a_model_gets_the_image_as_it_is_and_its_parameters(
    make_stack, torchserve, path, parameters
):
    make_stack(*TASKS).post(path, data=PNG)
    (call,) = torchserve.calls
    assert (call.body, call.parameters) == (PNG, parameters)
    assert call.headers["Content-Type"] == "image/png"
