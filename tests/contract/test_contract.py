"""The API as data: each pair of files in `cases` is a test; a new case needs no code.

`NAME.request.http` is the request as sent, without its length. `NAME.response.json` is the
answer: `status`, `headers` (the answer may have others) and `body` (complete; `"*"` matches any
value that is not empty). `given` sets the state before the request: `torchserve` lists the
fake's reactions to its calls, `loading` and `unregistered` name models, `tasks` are the map's
sections (default: all), `settings` override the gateway's, `documents` maps ids to states (the
DeepL key of each is `KEY`, its result `bonjour`), `glossary` exists already, `keys` are the
grants of each key (then one is required), `before` is the number of identical earlier requests.

Cases that have no `given` and create nothing share a gateway. For each action that depends on
the backend, one case also runs on a cluster.

Cases named after a client package of another API are requests of that package, unmodified.
"""

import json
from contextlib import closing
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

import catalog
from contract.tasks import TRANSLATION
from gateway.access.keys import Grant, read_id
from gateway.access.storage import KeyStorage
from gateway.app import create_app
from gateway.database import find_database
from gateway.errors import (
    BodyTooSlow,
    ClientGone,
    DiskFull,
    Forbidden,
    ForeignProblem,
    Problem,
)
from gateway.openapi import build
from gateway.settings import Settings
from tests.description import Description
from tests.gateway.conftest import LANGUAGES, TASKS, MakeClient, keep, write_map
from tests.gateway.fake_torchserve import FakeTorchServe

CASES = Path(__file__).with_name("cases")
REQUEST, RESPONSE = ".request.http", ".response.json"
GIVEN = {
    "torchserve", "loading", "unregistered", "tasks", "settings", "keys", "before",
    "documents", "glossary",
}  # fmt: skip
#: The cases that also run on a cluster.
ON_CLUSTERS = (
    "text", "document", "caption-frames", "classify-top-k", "detect-threshold",
    "readyz", "status", "warning-in-a-list", "text-too-long-in-a-list",
    "frames-that-the-model-refuses", "row-out-of-memory",
)  # fmt: skip
#: The id of the existing glossary.
GLOSSARY_ID = "38b2dd5c-8c59-4d34-9d9b-1a2b3c4d5e6f"

names = sorted(path.name.removesuffix(REQUEST) for path in CASES.glob(f"*{REQUEST}"))


def read_request(name: str) -> dict[str, Any]:
    """The request as arguments of the test client."""
    head, _, body = (CASES / f"{name}{REQUEST}").read_bytes().partition(b"\n\n")
    first, *lines = head.decode("ascii").splitlines()
    method, path, version = first.split(" ")
    assert version == "HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines)
    data = body.removesuffix(b"\n")
    return {"method": method, "path": path, "headers": headers, "data": data}


def read_response(name: str) -> dict[str, Any]:
    expected = json.loads((CASES / f"{name}{RESPONSE}").read_text("utf-8"))
    assert set(expected) <= {"given", "status", "headers", "body"}, name
    assert set(expected.get("given", {})) <= GIVEN, name
    assert isinstance(expected, dict)
    return expected


def fill_in(expected: Any, found: Any) -> Any:
    """`expected` with the found value in place of each `"*"`."""
    if expected == "*" and found:
        return found
    if isinstance(expected, dict) and isinstance(found, dict):
        return {key: fill_in(value, found.get(key)) for key, value in expected.items()}
    if isinstance(expected, list) and isinstance(found, list):
        rest = [None] * (len(expected) - len(found))
        return [fill_in(*pair) for pair in zip(expected, found + rest, strict=False)]
    return expected


@pytest.fixture(scope="module")
def description(tmp_path_factory) -> Description:
    """The OpenAPI description of a gateway with every task and with keys."""
    path = write_map(tmp_path_factory.mktemp("map") / "map.json", LANGUAGES, TASKS)
    app = create_app(Settings.model_construct(), models=catalog.load(path))
    return Description(build(app, {TRANSLATION, *TASKS}, needs_key=True))


def add_keys(keys: dict[str, dict[str, Any]], patch: pytest.MonkeyPatch) -> None:
    """Add keys with their grants."""
    with closing(KeyStorage(find_database(Settings()))) as storage:
        for token, grant in keys.items():
            made = partial(tuple, (token, read_id(token)))
            patch.setattr("gateway.access.storage.make_token", made)
            storage.add(token, Grant(**grant))


def make_cluster(torchserve: FakeTorchServe) -> dict[str, Any]:
    """The settings of a gateway that uses the fake as a cluster's ingress."""
    key_file = torchserve.key_file.with_name("key")
    key_file.write_text(torchserve.keys["inference"])
    return {"backend": "ray", "ray_urls": torchserve.url, "ray_key_file": key_file}


@pytest.fixture
def make_world(torchserve, make_client, map_path, run, monkeypatch) -> MakeClient:
    """A function that makes a client in the state that a case gives, perhaps with a cluster."""

    def make(given: dict[str, Any], is_cluster: bool) -> FlaskClient:
        torchserve.will(*given.get("torchserve", []))
        write_map(map_path, LANGUAGES, given.get("tasks", TASKS))
        torchserve.loading.update(given.get("loading", []))
        torchserve.unregistered.update(given.get("unregistered", []))
        keep(map_path.with_name("documents"), **given.get("documents", {}))
        settings = make_cluster(torchserve) if is_cluster else {}
        if keys := given.get("keys"):
            add_keys(keys, monkeypatch)
            settings["keys"] = "required"
        client: FlaskClient = make_client(**settings | given.get("settings", {}))
        if "glossary" in given:
            ids = map("{}".format, chain([GLOSSARY_ID], count()))
            new = "gateway.glossaries.storage.make_id"
            monkeypatch.setattr(new, partial(next, ids))
            made = client.post("/v3/glossaries", json=given["glossary"])
            assert made.get_json()["glossary_id"] == GLOSSARY_ID
        return client

    return make


@pytest.mark.parametrize(
    ("name", "is_cluster"),
    [
        *(pytest.param(name, False, id=name) for name in names),
        *(pytest.param(name, True, id=f"{name}, ray") for name in ON_CLUSTERS),
    ],
)
def test_case(name, is_cluster, request, description):
    expected = read_response(name)
    given = expected.get("given", {})
    # No other case may see the objects that a case creates.
    if given or is_cluster or expected["status"] in (201, 202):
        client = request.getfixturevalue("make_world")(given, is_cluster)
    else:
        client = request.getfixturevalue("shared_client")
    for _ in range(given.get("before", 0)):
        client.open(**read_request(name))
    sent = read_request(name)
    response = client.open(**sent, buffered=True)

    if "tasks" not in given:
        asked = sent["method"], sent["path"], response.status_code
        description.check(*asked, response.headers, response.text)
    body = response.get_json() if response.is_json and response.data else response.text
    assert body == fill_in(expected["body"], body)
    assert response.status_code == expected["status"]
    headers = {name: response.headers.get(name) for name in expected["headers"]}
    assert headers == fill_in(expected["headers"], headers)


def test_every_request_has_its_response():
    responses = {path.name.removesuffix(RESPONSE) for path in CASES.glob("*.json")}
    assert responses == set(names)
    assert len(list(CASES.iterdir())) == 2 * len(names)


def test_every_route_has_a_case_that_succeeds(description):
    answered = {
        (description.find_path(sent["path"]), sent["method"].lower())
        for name in names
        if read_response(name)["status"] < 300
        for sent in [read_request(name)]
    }
    routes = {found[:2] for found in description.list_operations()}
    assert routes - answered == {
        ("/suggest", "post"),
        ("/docs/{name}", "get"),
        ("/page/{digest}/{name}", "get"),
        # It waits for the documents program, which does not run here.
        ("/translate_file", "post"),
    }


def test_every_problem_has_a_case():
    bodies = [read_response(name)["body"] for name in names]
    found = {body["type"] for body in bodies if "type" in body}
    # A client that has gone reads no answer, and no case is slow or fills a disk. Forbidden is
    # only for another API and for pages of other origins.
    others = {ForeignProblem, ClientGone, BodyTooSlow, DiskFull, Forbidden}
    kinds = set(Problem.__subclasses__()) - others
    assert {f"urn:babelgate:{kind.slug}" for kind in kinds} - found == set()
