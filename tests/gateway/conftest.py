"""Gateways in front of a fake TorchServe, whose behaviour tests set."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask.json.provider import DefaultJSONProvider
from flask.testing import FlaskClient
from werkzeug.routing import Rule

import catalog
from contract import variables
from contract.tasks import TRANSLATION
from documents.storage import NOBODY, DocumentFolder, Order, State
from gateway.app import GatewayApp, create_app
from gateway.backends.backend import Backend, Capacity, ModelState
from gateway.http.request import Call, Deadline
from gateway.settings import PREFIX, Settings
from tests.description import Description
from tests.gateway.fake_torchserve import FakeTorchServe

MakeClient = Callable[..., FlaskClient]

# Let Flask's client send JSON as other clients do: in UTF-8, with fields in their order.
DefaultJSONProvider.sort_keys = DefaultJSONProvider.ensure_ascii = False

#: A map with four languages; every model has its language's name.
LANGUAGES = ("ko", "en", "zh", "pt")
#: The map's tasks besides translation; every model has its task's name.
TASKS = ("captioning", "classification", "detection")


def write_map(path: Path, languages: Sequence[str], tasks: Sequence[str]) -> Path:
    """Write a map of these, on the CPU; the tasks' models read images of 6 by 8 pixels."""
    model = path.with_name("model")
    model.mkdir(exist_ok=True)
    size = {"height": 6, "width": 8}
    (model / "preprocessor_config.json").write_text(json.dumps({"size": size}))
    content: dict[str, object] = dict.fromkeys(
        tasks, {"devices": "cpu", "model": str(model)}
    )
    if languages:
        content["cuda_id"] = dict.fromkeys(languages, "cpu")
    path.write_text(json.dumps(content))
    return path


class StatelessBackend:
    """A backend whose models report no state; tests define their answers."""

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        return dict.fromkeys(models)

    def capacity(self, model: catalog.Model) -> Capacity:
        return Capacity(model.workers)


def make_model(
    name: str = "ko", devices: Sequence[str] = ("cpu",), **settings: Any
) -> catalog.Model:
    """Make the model of a language, with these settings of the map's section."""
    section = catalog.TranslationSection(**settings)
    return catalog.Model(name, TRANSLATION, (name,), tuple(devices), section)


def make_call(
    limit_s: float = 60.0,
    *,
    address: str = "192.0.2.1",
    client: socket.socket | None = None,
) -> Call:
    return Call(address, limit_s, Deadline(time.monotonic() + limit_s), client)


def make_gone() -> Call:
    """Make the call of a client that has closed its connection; our end is closed, too."""
    client, other = socket.socketpair()
    other.close()
    client.close()
    return make_call(client=client)


def keep(folder: Path, **states: dict[str, Any]) -> None:
    """Store documents in these states, by their ids."""
    for document_id, state in states.items():
        owner = state.pop("owner", NOBODY)
        order = Order(document_id, owner, "you", "::1", "a.txt", "ko", password="KEY")
        document = DocumentFolder(folder / "kept" / owner / document_id, order)
        document.folder.mkdir(parents=True)
        content = json.dumps(asdict(order))
        (document.folder / "document.json").write_text(content)
        document.write_state(State(**state))
        document.result.write_text("bonjour")


@pytest.fixture(autouse=True, scope="session")
def late_builders() -> Iterator[None]:
    """Compile Werkzeug's URL builders on use: it compiles two for each route, and the tests'
    thousands of apps use almost none."""
    compile_builder = Rule._compile_builder

    def compile_late(rule: Rule, append_unknown: bool = True) -> Callable[..., Any]:
        return lambda rule, **values: compile_builder(rule, append_unknown)(
            rule, **values
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "_compile_builder", compile_late)
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of the machine that runs the tests."""
    for name in os.environ:
        ours = name.upper().startswith((PREFIX, "GATEWAY_BACKEND"))
        if ours or name == "PROMETHEUS_MULTIPROC_DIR":
            monkeypatch.delenv(name)


@pytest.fixture
def torchserve(tmp_path: Path) -> Iterator[FakeTorchServe]:
    with FakeTorchServe(tmp_path / "key_file.json") as fake:
        yield fake


@pytest.fixture
def map_path(tmp_path: Path) -> Path:
    return write_map(tmp_path / "setup_config.json", LANGUAGES, TASKS)


@contextmanager
def make_clients(torchserve, map_path: Path, folder: Path) -> Iterator[MakeClient]:
    """Yield a factory of clients of gateways in front of the fake; it accepts settings."""
    apps: list[GatewayApp] = []

    def make(own: Backend | None = None, /, **given: object) -> FlaskClient:
        values = {
            "map": map_path,
            **({} if "keys" in given else {"database_url": f"sqlite:///{folder}/db"}),
            "inference_url": torchserve.url,
            "management_url": torchserve.url,
            "metrics_url": torchserve.url,
            "key_file": torchserve.key_file,
            "documents": map_path.with_name("documents"),
        }
        settings = Settings.model_validate(values | given)
        app = create_app(settings, models=catalog.load(map_path), backend=own)
        apps.append(app)
        return app.test_client()

    yield make
    for app in apps:
        app.close()


@contextmanager
def serve_fake(folder: Path, tasks: Sequence[str] = ()) -> Iterator[MakeClient]:
    """Yield a factory of clients of gateways in front of a new fake."""
    map_path = write_map(folder / "map.json", LANGUAGES, tasks)
    with (
        FakeTorchServe(folder / "key_file.json") as torchserve,
        make_clients(torchserve, map_path, folder) as make,
    ):
        yield make


@pytest.fixture
def make_client(torchserve, map_path, tmp_path) -> Iterator[MakeClient]:
    with make_clients(torchserve, map_path, tmp_path) as make:
        yield make


@pytest.fixture
def client(make_client: MakeClient) -> FlaskClient:
    return make_client()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run directory of the gateway and of the command line."""
    folder = tmp_path / "run"
    monkeypatch.setenv(variables.RUN_DIR.name, str(folder))
    return folder


@pytest.fixture
def make_guarded(run: Path, make_client: MakeClient) -> MakeClient:
    """A factory of clients of gateways that require keys; it accepts settings."""
    return partial(make_client, keys="required")


@pytest.fixture(scope="module")
def shared_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """One client for all tests of a file that leave it unchanged; its fake only echoes."""
    with serve_fake(tmp_path_factory.mktemp("shared"), TASKS) as make:
        yield make()


@pytest.fixture(scope="module")
def description(shared_client: FlaskClient) -> Description:
    """The OpenAPI description of the gateway."""
    return Description(shared_client.get("/openapi.json").get_json())
