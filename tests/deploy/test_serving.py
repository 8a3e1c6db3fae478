"""The models' part of a stack, without Ray and TorchServe: secrets, folders and waiting."""

import os
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from deploy import node, serving
from deploy.serving import Cluster, TorchServe
from deploy.stack import ROOT, Stack, StackError
from deploy.supervision import Supervision
from ray_backend.deployment import Dashboard, DashboardError, Machine
from ray_backend.nodes import PORTS
from tests.torchserve_backend.fakes import FakeManagement, runs, want
from torchserve_backend.management import ManagementError


def make_stack(folder: Path, offset: int = 0, **more: Any) -> Stack:
    return Stack(folder, folder / "map.json", None, offset, backend="ray", **more)


def make_cluster(stack: Stack) -> Cluster:
    stack.write("{}")
    return Cluster(stack)


def test_a_head_makes_its_secrets_and_keeps_them(tmp_path: Path, monkeypatch):
    stack = make_stack(tmp_path)
    found = make_cluster(stack)
    found.write()
    files = (stack.node.token_file, stack.ray_key_file)
    secrets = [file.read_text() for file in files]
    found.write()
    assert [file.read_text() for file in files] == secrets
    assert len({*secrets}) == 2
    monkeypatch.setenv("BABELGATE_RAY_KEY_FILE", "here")
    assert stack.ray_key_file == ROOT / "here"


@pytest.mark.parametrize(
    ("is_door", "copied", "missing"),
    [
        (False, [], "token"),
        (False, ["token"], None),
        (True, ["token"], "key"),
        (True, ["token", "key"], None),
    ],
)
def test_a_machine_needs_the_heads_secrets(tmp_path, is_door, copied, missing):
    stack = make_stack(tmp_path, head="10.0.0.1:7800", is_door=is_door)
    found = make_cluster(stack)
    for name in copied:
        (stack.node.folder / name).write_text("secret")
    if missing:
        with pytest.raises(StackError, match=f"copy run/ray/{missing} from the head"):
            found.write()
    else:
        found.write()
    assert {path.name for path in stack.node.folder.iterdir()} == {*copied}


def test_a_machine_finds_its_head(tmp_path: Path):
    stack = make_stack(tmp_path, 500, address="10.0.0.2", head="10.0.0.1:9800")
    assert stack.dashboard_url == "http://10.0.0.1:9801"
    assert stack.ingress_urls == "http://10.0.0.2:8310,http://10.0.0.1:9810"
    environment = stack.environment()
    assert environment["GATEWAY_BACKEND"] == "ray"
    assert environment["BABELGATE_GATEWAY_BIND"] == "10.0.0.2:9388"
    assert re.findall(
        r"\[program:(\w+)\]", stack.render_supervisor(Path("/nginx"))
    ) == ["registrar", "ray", "gateway", "documents", "nginx"]
    assert "BABELGATE_METRICS_URL" not in environment


def test_haproxy_waits_longer_than_the_gateway(tmp_path, monkeypatch):
    # The gateway's time limits are settings of another machine.
    make_stack(tmp_path, head="10.0.0.1:7800", is_door=False).write("{}")
    monkeypatch.setenv("BABELGATE_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(node, "lay_out", lambda _: None)
    monkeypatch.setattr(os, "execve", start := Mock())
    node.main()
    *_, environment = start.call_args.args
    assert int(environment["RAY_SERVE_HAPROXY_TIMEOUT_SERVER_S"]) > 3600


@pytest.mark.parametrize(
    ("address", "urls", "expected"),
    [
        pytest.param(None, "", "http://127.0.0.1:8306", id="one machine"),
        pytest.param("10.0.0.1", "", None, id="others may join"),
        pytest.param(None, "http://10.0.0.1:7810", None, id="another cluster is asked"),
    ],
)
def test_the_counters_of_one_machine_are_all_that_there_are(
    tmp_path, monkeypatch, address, urls, expected
):
    monkeypatch.setenv("BABELGATE_RAY_URLS", urls)
    monkeypatch.delenv("BABELGATE_METRICS_URL", raising=False)
    environment = make_stack(tmp_path, 500, address=address).environment()
    assert environment.get("BABELGATE_METRICS_URL") == expected


def test_a_program_is_waited_for_until_it_answers_or_was_given_up(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    looks: Any = [DashboardError("away"), ManagementError("not yet"), None]
    ask, supervision = Mock(side_effect=looks), Mock(spec=Supervision)
    supervision.states.return_value = {"torchserve": "STARTING", "ray": "FATAL"}
    serving.wait_for(supervision, "torchserve", ask)
    assert ask.call_count == 3
    with pytest.raises(TimeoutError, match="Ray did not start: away"):
        serving.wait_for(supervision, "ray", Mock(side_effect=looks))


def test_models_of_a_stack_that_was_stopped_are_not_waited_for(tmp_path, monkeypatch):
    management = FakeManagement(runs("fr", ready_workers=0))
    monkeypatch.setattr(serving, "Management", lambda *_: management)
    started = TorchServe(Stack(tmp_path, tmp_path / "map.json"))
    started._desired = [want("fr")]
    monkeypatch.setattr(serving, "mend", lambda *_: None)
    with pytest.raises(StackError, match="stopped meanwhile"):
        started.bring_up(timeout_s=2)


def test_a_machine_looks_for_itself_in_the_cluster(tmp_path: Path, monkeypatch):
    machines = [Machine(node_ip="10.0.0.2", state="ALIVE")]
    monkeypatch.setattr(Dashboard, "list_machines", lambda _: machines)
    make_cluster(make_stack(tmp_path, address="10.0.0.2")).find_machine()
    with pytest.raises(DashboardError, match="has not joined the cluster"):
        make_cluster(make_stack(tmp_path, address="10.0.0.3")).find_machine()


@pytest.mark.parametrize("is_on_another_disk", [False, True])
def test_folders_are_this_users_and_go_with_the_cluster_but_for_the_logs(
    tmp_path, monkeypatch, is_on_another_disk
):
    stack = make_stack(tmp_path)
    stack.write("{}")
    logs = stack.node.sessions / "session_1/logs"
    for _ in range(2):  # as when Ray is restarted
        node.lay_out(stack.node)
    logs.mkdir(parents=True)
    (stack.node.sessions / "session_latest").symlink_to(stack.node.link / "session_1")
    (logs / "raylet.out").write_text("began")
    assert stack.node.folder.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "logs/ray/raylet.out").read_text() == "began"
    if is_on_another_disk:
        monkeypatch.setattr(os, "replace", Mock(side_effect=OSError))
    node.clear(stack.node)
    assert (tmp_path / "logs/ray").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "logs/ray/raylet.out").read_text() == "began"
    assert [path.name for path in stack.node.folder.iterdir()] == []
    assert not stack.node.link.is_symlink()
    node.clear(stack.node)  # nothing is left to do
    node.lay_out(stack.node)
    node.clear(stack.node)


def test_a_stack_on_ray_asks_for_rays_ports(tmp_path: Path, monkeypatch):
    asked: list[tuple[object, ...]] = []

    def is_taken(port: int, address: str) -> bool:
        asked.append((port, address))
        return False

    monkeypatch.setattr("deploy.stack.is_taken", is_taken)
    make_stack(tmp_path, 1000, address="10.0.0.2", is_door=False).check_ports()
    assert {(port + 1000, "10.0.0.2") for port in PORTS.fixed} < {*asked}
    assert (8777, "10.0.0.2") not in asked


@pytest.mark.parametrize(
    ("workers", "is_ready", "said"),
    [
        pytest.param(1, True, "1/1", id="ready"),
        pytest.param(0, False, "0/1", id="starting"),
        pytest.param(None, False, "not registered", id="not registered"),
    ],
)
def test_the_status_shows_every_language_and_whether_all_are_ready(
    tmp_path, monkeypatch, capsys, workers, is_ready, said
):
    management = FakeManagement(runs("fr"))
    if workers is not None:
        management.found["ko"] = runs("ko", ready_workers=workers)
    monkeypatch.setattr(serving, "Management", lambda *_: management)
    stack = Stack(tmp_path, tmp_path / "map.json")
    stack.frozen_map.write_text('{"cuda_id": {"ko": "cpu", "fr": "cpu"}}')
    monkeypatch.setenv("COLUMNS", "200")
    assert TorchServe(stack).show() is is_ready
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if line[:3] == "ko "]
    assert said in row


def test_the_difference_is_mended_and_what_goes_is_named(capsys):
    version = "1.0-7f411872"
    desired = [want(name, version) for name in ("ko", "fr")]
    management = FakeManagement(runs("fr", version), runs("de", version))
    serving.mend(desired, management)
    assert capsys.readouterr().out.splitlines() == [
        "1 of 2 models already registered",
        "remove de: the map does not name it",
    ]
    assert management.calls == [f"unregister de {version}", "register ko.mar"]
