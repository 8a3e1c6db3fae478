"""What is found out of a cluster before Ray is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.errors import ClientError
from contract import variables
from ray_backend.bulk.joining import find_cluster
from tests.ray_backend import fake_ray
from tests.ray_backend.fake_ray import TOKEN, FakeRay, serve


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    monkeypatch.setenv(variables.RAY_TOKEN_FILE.name, str(path))
    monkeypatch.delenv(variables.RAY_DASHBOARD_URL.name, raising=False)
    return path


@pytest.fixture
def ray(token: Path) -> Iterator[FakeRay]:
    with serve() as server:
        yield server


@pytest.fixture
def head(ray: FakeRay) -> str:
    """Its dashboard has the port after that of the head."""
    return f"127.0.0.1:{ray.server_port - 1}"


@pytest.fixture
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"node_ip": "127.0.0.1", "state": "ALIVE", "resources_total": {"CPU": 4}}
    monkeypatch.setattr(fake_ray, "MACHINES", [*fake_ray.MACHINES, own])


@pytest.mark.usefixtures("_at_home")
def test_a_cluster_is_found_with_this_machine_in_it(head: str, token: Path):
    cluster = find_cluster(head)
    assert (cluster.head, cluster.address) == (head, "127.0.0.1")
    assert [machine.node_ip for machine in cluster.machines] == [
        "10.0.0.1",
        "127.0.0.1",
    ]
    assert cluster.environment["RAY_AUTH_TOKEN_PATH"] == str(token)


@pytest.mark.usefixtures("_at_home")
def test_the_dashboard_may_be_elsewhere(ray: FakeRay, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(variables.RAY_DASHBOARD_URL.name, ray.url)
    assert find_cluster("127.0.0.1").head == "127.0.0.1:7800"


def test_a_machine_of_no_cluster_is_told_which_are(head: str):
    with pytest.raises(ClientError) as caught:
        find_cluster(head)
    assert str(caught.value) == (
        f"this machine is not in the cluster at {head}, whose machines are 10.0.0.1: run "
        "the command on one of them"
    )


def test_a_wrong_token_is_named(head: str, token: Path):
    token.write_text("wrong")
    with pytest.raises(ClientError, match=f"does not know the token in {token}"):
        find_cluster(head)


def test_a_token_that_is_not_there_is_named(head: str, token: Path):
    token.unlink()
    with pytest.raises(ClientError, match=f"token cannot be read from {token}"):
        find_cluster(head)


def test_an_address_where_nobody_answers_is_named(token: Path):
    with pytest.raises(ClientError, match=r"^no cluster at 127.0.0.1:1: .* not answer"):
        find_cluster("127.0.0.1:1")


@pytest.mark.parametrize("head", ["", "head:7800", "10.0.0.1:x", "10.0.0.1:7800:1"])
def test_an_address_that_is_none_is_refused(head: str):
    with pytest.raises(ClientError) as caught:
        find_cluster(head)
    assert str(caught.value) == (
        f"--address {head}: expected a head such as 10.0.0.1:7800"
    )
