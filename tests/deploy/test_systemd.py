"""The systemd unit, verified with systemd-analyze."""

import configparser
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from deploy.__main__ import app
from deploy.programs import SYSTEMD_ANALYZE, find, install
from deploy.stack import ROOT, Stack
from deploy.supervision import Supervision
from deploy.systemd import render_unit


@pytest.mark.parametrize("manager", ["--user", "--system"])
@pytest.mark.parametrize("user", ["", "daemon"], ids=["own", "other"])
def test_systemd_accepts_the_unit(tmp_path, manager, user):
    systemd_analyze = find(SYSTEMD_ANALYZE) or install(SYSTEMD_ANALYZE)[0]
    unit = tmp_path / "babelgate.service"
    text = render_unit(Stack(ROOT / "run", ROOT / "map.json"), user)
    unit.write_text(text)
    done = subprocess.run(
        [systemd_analyze, "verify", manager, "--man=no", unit],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert "babelgate.service" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    assert re.findall(r"\[Service\]\nUser=(.*)\n", text) == [user] * bool(user)


def test_the_unit_has_this_clones_paths_and_the_stacks_options(tmp_path, monkeypatch):
    places = ["--run-dir", f"{tmp_path}/run", "--map", f"{tmp_path}/a map.json"]
    options = [*places, "--model", r'50% "${a}" \b', "--port-offset", "1000"]
    result = CliRunner().invoke(app, ["unit", *options])
    assert result.exit_code == 0
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(result.stdout)
    service = dict(unit["Service"])
    assert service["PIDFile"] == f"{tmp_path}/run/supervisord.pid"
    assert service["WorkingDirectory"] == str(ROOT)
    assert service["ExecStart"] == (
        f'"{sys.executable}" -m deploy up "--run-dir" "{tmp_path}/run" '
        f'"--map" "{tmp_path}/a map.json" '
        r'"--model" "50%% \"$${a}\" \\b" "--port-offset" "1000"'
    )
    stop = shlex.split(service["ExecStop"])
    assert stop[2:] == ["deploy", "down", "--pid", "${MAINPID}", *places[:2]]
    ended: list[Path] = []
    monkeypatch.setattr("deploy.lifecycle.end", lambda stack: ended.append(stack.run))
    for pid, is_up, count in (("", True, 0), ("", False, 1), ("4711", True, 2)):
        monkeypatch.setattr(Supervision, "is_running", Mock(return_value=is_up))
        monkeypatch.setattr(Supervision, "read_environment", Mock(return_value={}))
        CliRunner().invoke(app, [pid if "$" in word else word for word in stop[3:]])
        assert ended == [tmp_path / "run"] * count
    assert service["Restart"] == "on-failure"
    assert "/srv/" not in "\n".join(service.values())


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (
            ["--backend", "ray", "--address", "10.0.0.1"],
            '-m deploy up {} "--backend" "ray" "--address" "10.0.0.1"',
        ),
        (
            ["--head", "10.0.0.1", "--gateway"],
            '-m deploy join {} "--head" "10.0.0.1:7800" "--gateway"',
        ),
    ],
    ids=["the head", "another machine"],
)
def test_the_unit_of_a_cluster_has_its_addresses(options: list[str], command: str):
    result = CliRunner().invoke(app, ["unit", *options])
    (line,) = re.findall(r"(?m)^ExecStart=(.*)$", result.stdout)
    given = f'"--run-dir" "{ROOT}/run"'
    assert line == f'"{sys.executable}" {command.format(given)}'
