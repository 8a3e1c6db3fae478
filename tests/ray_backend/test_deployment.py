"""Changes to a deployment, waiting until it runs, and the messages if it fails."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from ray.serve.schema import ServeDeploySchema

import catalog
from deploy.serving import Cluster
from deploy.stack import Stack
from ray_backend import deployment
from ray_backend.config import make_config
from ray_backend.deployment import (
    Application,
    Dashboard,
    DashboardError,
    DeploymentError,
    Machine,
)
from tests.ray_backend import fake_ray
from tests.ray_backend.fake_ray import CPUS, GPUS, TOKEN, FakeRay


def describe(name: str, **changes: Any) -> dict[str, Any]:
    """An application as in the configuration."""
    settings = {"batch_size": changes.pop("batch_size", 64)}
    deployments = [{"name": "model", "num_replicas": changes.pop("replicas", 1)}]
    return {"name": name, "args": {"settings": settings}, "deployments": deployments}


def find(*given: Any, **options: Any) -> Application:
    """An application as Serve reports it."""
    return Application.model_validate(fake_ray.describe(*given, **options))


class FakeDashboard(Dashboard):
    """A dashboard that reports these states in order, and then repeats the last one."""

    def __init__(self, *looks: Mapping[str, Application] | Exception) -> None:
        self.looks = list(looks)
        self.deployed: list[Mapping[str, Any]] = []

    def list_applications(self) -> Mapping[str, Application]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    def list_machines(self) -> tuple[Machine, ...]:
        return CPUS, GPUS

    def deploy(self, config: Mapping[str, Any]) -> None:
        self.deployed.append(config)


FR = describe("fr")
CONFIG = {"applications": [FR]}


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        ({}, ["new fr"]),
        ({"fr": find(FR)}, []),
        (
            {"fr": find(describe("fr", batch_size=8, replicas=2))},
            ["changed fr: args.settings.batch_size, deployments.num_replicas"],
        ),
        ({"fr": find(FR | {"route_prefix": "/fr"})}, ["changed fr: route_prefix"]),
        ({"fr": find(FR), "ko": find(describe("ko"))}, ["gone ko"]),
    ],
    ids=["new", "the same", "changed", "a key more", "gone"],
)
def test_a_change_is_named_with_its_keys(found, changes):
    assert deployment.compare(CONFIG, found) == changes


def test_the_settings_for_logs_are_those_of_all():
    logging = {"logging_config": {"enable_access_log": False}}
    assert deployment.compare(CONFIG | logging, {"fr": find(FR | logging)}) == []
    changes = deployment.compare(CONFIG | logging, {"fr": find(FR)})
    assert changes == ["changed fr: logging_config"]


@pytest.mark.parametrize(
    ("most", "says"),
    [
        ({}, ""),
        ({"max_replicas_per_node": 3}, ""),
        (
            {"max_replicas_per_node": 2},
            " max_replicas_per_machine is 2, reached on 10.0.0.1.",
        ),
    ],
    ids=["no limit", "no machine is full", "a machine has as many as it may"],
)
def test_a_replica_without_a_machine_says_what_it_needs(most, says):
    places = ("10.0.0.1", "10.0.0.2", "10.0.0.1", None)
    found = {"fr": find(FR, "DEPLOYING", *places, **most), "ko": find(describe("ko"))}
    assert deployment.explain_unplaced(found, (CPUS, GPUS)) == [
        "fr: 1 of 4 replicas cannot be placed. Each needs 0.1 CPU, 0.5 GPU, accelerator "
        "H100; 10.0.0.1 has 2 CPU; 10.0.0.2 has 16 CPU, 2 GPU, accelerator H100."
        f"{says}"
    ]


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every sleep return at once and advance the clock."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda s: now.__setitem__(0, now[0] + s))
    yield
    monkeypatch.undo()


STARTS = {"fr": find(FR, "DEPLOYING")}


def wait(dashboard: FakeDashboard) -> None:
    deployment.show_progress(dashboard, CONFIG, timeout_s=90)


@pytest.mark.usefixtures("_hurried")
def test_a_deployment_is_polled_until_all_runs():
    dashboard = FakeDashboard({}, STARTS, {"fr": find(FR)})
    wait(dashboard)
    assert len(dashboard.looks) == 1


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize(
    ("look", "fault"),
    [
        (STARTS, "Not running after 90 s: fr"),
        ({"fr": find(FR, "DEPLOY_FAILED")}, "fr has failed: out of memory"),
        ({"fr": find(FR, "DEPLOYING", None)}, "1 of 1 replicas cannot be placed"),
        (
            {"fr": find(FR), "ko": find(describe("ko"))},
            "Not running after 90 s: gone ko",
        ),
    ],
    ids=["late", "failed", "without a machine", "does not go"],
)
def test_what_keeps_models_from_running_is_told(look, fault):
    with pytest.raises(DeploymentError, match=fault):
        wait(FakeDashboard(look))


FAILED = find(FR, "DEPLOY_FAILED")
IT, KO = describe("it"), describe("ko")


def test_what_has_failed_is_taken_out_and_tried_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    there = {"it": find(IT), "fr": FAILED}
    dashboard = FakeDashboard(there, there, {"it": find(IT)})
    config = {"applications": [IT, FR], "more": 1}
    deployment.apply(dashboard, config)
    assert dashboard.deployed == [{"applications": [IT], "more": 1}, config]


def test_a_model_whose_last_version_answers_is_not_taken_out():
    old = FAILED.model.model_copy(update={"replicas": find(FR).model.replicas})
    answering = FAILED.model_copy(update={"deployments": {"model": old}})
    dashboard = FakeDashboard({"fr": answering})
    deployment.apply(dashboard, CONFIG)
    assert dashboard.deployed == [CONFIG]


def test_what_serve_does_not_remove_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deployment, "_GONE_S", -1)
    dashboard = FakeDashboard({"fr": FAILED, "ko": find(KO, "DEPLOY_FAILED")})
    with pytest.raises(DeploymentError, match=r"did not remove fr, ko\."):
        deployment.apply(dashboard, CONFIG)


def test_the_reason_is_the_last_line_of_what_a_replica_has_raised():
    raised = "Traceback\n  line 1\nLoadError: fr cannot be loaded: no such directory\n"
    model = FAILED.model.model_copy(update={"message": raised})
    failed = FAILED.model_copy(update={"deployments": {"model": model}})
    assert deployment.explain_failed({"fr": failed, "it": find(IT)}) == [
        "fr has failed: LoadError: fr cannot be loaded: no such directory"
    ]


@pytest.mark.parametrize(
    ("looks", "times"),
    [
        ([{"fr": find(describe("fr", batch_size=8))}] * 3, 0),
        ([{}, {}, {"fr": find(FR)}], 1),
        ([{}, {"fr": find(FR)}] * 2, 0),
        ([DashboardError("away"), DashboardError("away")], 0),
    ],
    ids=["another's", "a head that came back empty", "a head that reads", "no head"],
)
def test_what_gets_lost_is_deployed_again(monkeypatch, capsys, looks, times):
    left = iter(looks)

    def sleep(_: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    dashboard = FakeDashboard(*looks)
    with pytest.raises(KeyboardInterrupt):
        deployment.keep_deployed(dashboard, lambda: CONFIG)
    assert dashboard.deployed == [CONFIG] * times
    said = capsys.readouterr().out.splitlines()
    assert said == ["The cluster lost all models; deploying them again."] * times


@pytest.mark.parametrize(
    ("ingress", "host", "port"),
    [
        ("http://127.0.0.1:7810", "127.0.0.1", 7810),
        ("http://10.0.0.1:9810", "0.0.0.0", 9810),
        ("http://ray.example.org", "0.0.0.0", 80),
    ],
)
def test_serve_listens_where_the_gateway_asks(ingress: str, host: str, port: int):
    config = make_config(
        catalog.load(is_cluster=True), key="secret", has_gpus=False, ingress=ingress
    )
    assert ServeDeploySchema.model_validate(config)
    assert config["http_options"] == {"host": host, "port": port}
    digests = {entry["args"]["key_digest"] for entry in config["applications"]}
    assert digests == {sha256(b"secret").hexdigest()}
    assert "secret" not in str(config)


def test_a_missing_and_an_empty_key_are_told(tmp_path: Path):
    with pytest.raises(DeploymentError, match="cannot be read"):
        deployment.read_key(tmp_path / "key")
    (tmp_path / "key").write_text("\n")
    with pytest.raises(DeploymentError, match="found an empty file"):
        deployment.read_key(tmp_path / "key")


@pytest.fixture
def ray() -> Iterator[FakeRay]:
    with fake_ray.serve() as server:
        yield server


@pytest.fixture
def dashboard(ray: FakeRay, tmp_path: Path) -> Dashboard:
    """A client of the fake dashboard, with the right token."""
    (tmp_path / "token").write_text(TOKEN)
    return Dashboard(ray.url, tmp_path / "token")


@pytest.fixture
def models(tmp_path: Path) -> catalog.Catalog:
    (tmp_path / "map").write_text(json.dumps({"cuda_id": {"fr": "0", "ko": "0"}}))
    return catalog.load(tmp_path / "map", is_cluster=True)


def test_what_was_deployed_is_not_changed_again(
    dashboard, models, monkeypatch, capsys, ray, tmp_path
):
    stack = Stack(tmp_path, tmp_path / "map", backend="ray")
    stack.node.folder.mkdir()
    stack.ray_key_file.write_text("secret")
    ingress = stack.ingress_urls
    config = make_config(models, key="secret", has_gpus=False, ingress=ingress)
    found = Cluster(stack)
    monkeypatch.setattr(found, "_dashboard", dashboard)
    monkeypatch.setattr(found, "_models", models, raising=False)
    found.show_changes()
    deployment.apply(dashboard, config)
    with monkeypatch.context() as quiet:
        quiet.setattr("catalog.display.console.quiet", True)
        deployment.show_progress(dashboard, config, timeout_s=60)
    assert ray.deployed == [config]
    found.show_changes()
    no_gpu = "The cluster has no GPU: every model runs on the CPU."
    nothing = "nothing to change: the cluster runs what the map says"
    said = capsys.readouterr().out.splitlines()
    assert said == [no_gpu, "new fr", "new ko", no_gpu, nothing]
    assert deployment.show_states(models, dashboard)


def test_the_state_shows_replicas_and_machines(dashboard, models, capsys, ray):
    told = {"name": "fr", "args": {"task": "translation", "languages": ["fr"]}}
    ray.applications = {"fr": fake_ray.describe(told, "RUNNING", "10.0.0.1", None)}
    assert not deployment.show_states(models, dashboard)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["fr", "fr", "RUNNING", "1/2", "10.0.0.1"] in rows
    assert ["ko", "-", "not", "deployed", "-", "-"] in rows
    assert "10.0.0.1 has 2 CPU".split() in rows


@pytest.mark.parametrize(
    ("instead", "fault"),
    [
        ((500, ""), "answered 500 an empty answer"),
        ((400, "no such key"), "answered 400 no such key"),
        ((200, "<html>"), "Unexpected answer from .*: <html>"),
        ((200, '{"applications": 7}'), "Unexpected answer from"),
    ],
)
def test_what_ray_says_otherwise_is_quoted(dashboard, ray, instead, fault):
    ray.instead = instead
    with pytest.raises(DashboardError, match=fault):
        dashboard.list_applications()


@pytest.mark.parametrize(
    ("token", "fault"),
    [(None, "cannot be read from"), ("another", "copy the file from the head")],
)
def test_a_token_that_does_not_do_is_told(dashboard, tmp_path, token, fault):
    (tmp_path / "token").unlink()
    if token:
        (tmp_path / "token").write_text(token)
    with pytest.raises(DashboardError, match=fault):
        dashboard.list_applications()


def test_a_dashboard_that_does_not_answer_is_told(tmp_path: Path):
    (tmp_path / "token").write_text(TOKEN)
    with pytest.raises(DashboardError, match="does not answer: ConnectionError"):
        Dashboard("http://127.0.0.1:1/", tmp_path / "token").list_machines()
