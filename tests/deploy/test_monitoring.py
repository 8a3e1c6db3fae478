"""Prometheus with a stack, the answers of our own exporter, and the alerts and graphs."""

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import requests
import yaml

from deploy import monitoring
from deploy.monitoring import MONITORING
from deploy.stack import ROOT, Stack, StackError
from tests.gateway.test_metrics import read
from tests.programs import run

#: Ray's list of its machines.
MACHINES = "prom_metrics_service_discovery.json"
METRICS_FILE = ROOT / "torchserve_backend/metrics.yaml"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("check", "config", "prometheus.yml"), id="configuration"),
        pytest.param(("check", "rules", "rules.yml"), id="rules"),
        pytest.param(("test", "rules", "rules_test.yml"), id="unit tests of the rules"),
    ],
)
def test_promtool_accepts(promtool: Path, arguments: tuple[str, ...]):
    assert "SUCCESS" in run(promtool, *arguments, cwd=MONITORING)


def test_every_alert_has_a_unit_test_in_which_it_fires():
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text("utf-8"))
    tests = yaml.safe_load((MONITORING / "rules_test.yml").read_text("utf-8"))["tests"]
    alerts = {
        rule["alert"]
        for group in rules["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    fired, quiet = (
        {
            promise["alertname"]
            for test in tests
            for promise in test.get("alert_rule_test", ())
            if bool(promise["exp_alerts"]) is has_alerts
        }
        for has_alerts in (True, False)
    )
    assert fired == quiet == alerts


@pytest.mark.parametrize(
    ("backend", "models"),
    [("torchserve", "127.0.0.1:10082"), ("ray", f"../ray/sessions/{MACHINES}")],
)
def test_a_moved_stack_is_scraped_where_it_is(tmp_path, promtool, backend, models):
    moved = Stack(tmp_path, tmp_path, None, 2000, backend=backend)
    command = monitoring.make_command(moved, promtool.with_name("prometheus"), 11090)
    configuration = tmp_path / "prometheus/prometheus.yml"
    assert f"--config.file={configuration}" in command
    assert "--web.listen-address=127.0.0.1:11090" in command
    targets = {}
    for job in yaml.safe_load(configuration.read_text("utf-8"))["scrape_configs"]:
        (named,) = job.get("static_configs") or job["file_sd_configs"]
        targets[job["job_name"]] = named.get("targets") or named["files"]
    fixed = {"gateway": ["127.0.0.1:9777"], "registrar": ["127.0.0.1:10083"]}
    assert targets == fixed | {backend: [models]}
    assert "1 rule files found" in run(promtool, "check", "config", configuration)


def test_rays_names_become_torchserves():
    content = yaml.safe_load((MONITORING / "prometheus.yml").read_text("utf-8"))
    (job,) = (each for each in content["scrape_configs"] if each["job_name"] == "ray")
    renamed = {
        rule["regex"]: rule["replacement"]
        for rule in job["metric_relabel_configs"]
        if rule.get("target_label") == "__name__"
    }
    declared = yaml.safe_load(METRICS_FILE.read_text("utf-8"))["model_metrics"]
    names = [counter["name"] for counter in declared["counter"]]
    ours = [name for name in names if name.startswith("Babelgate")]
    assert renamed == {f"ray_{name.lower()}_total": name for name in ours}


Read = Callable[[], dict[tuple[str, ...], float]]


@pytest.fixture
def scrape(tmp_path: Path) -> Iterator[Read]:
    server = monitoring.serve(tmp_path, 0)
    url = f"http://127.0.0.1:{server.server_port}/metrics"
    yield lambda: read(requests.get(url, timeout=30).text)
    server.shutdown()
    server.server_close()


def test_memory_is_that_of_all_processes_of_a_program(scrape: Read, tmp_path: Path):
    with subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 & echo started; read _; kill $!"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ
        | {"BABELGATE_RUN_DIR": str(tmp_path), "BABELGATE_PROGRAM": "torchserve"},
    ) as program:
        assert program.stdout
        assert program.stdout.readline() == b"started\n"
        process = psutil.Process(program.pid)
        record = {"group": program.pid, "since": process.create_time()}
        (tmp_path / "torchserve.group").write_text(json.dumps(record))
        (tmp_path / "registrar.group").write_text("")  # still being written
        (tmp_path / "gateway.group").write_text('{"group": 4194305, "since": 1.5}')
        metrics = scrape()
    memory = {k[1]: v for k, v in metrics.items() if k[0] == "babelgate_memory_bytes"}
    assert set(memory) == {"torchserve", "workers"}
    assert min(memory.values()) > 0
    assert metrics["babelgate_start_time_seconds", "torchserve"] == record["since"]
    assert metrics["babelgate_start_time_seconds", "gateway"] == 1.5


def test_the_memory_of_gpus_is_shown(scrape, tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "0, 300, 81559"\necho "1, [N/A], [N/A]"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert scrape() == {
        ("babelgate_gpu_memory_used_bytes", "0"): 300 << 20,
        ("babelgate_gpu_memory_bytes", "0"): 81559 << 20,
    }


def test_a_taken_port_is_told(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StackError, match=f"Port {port} is taken.*--port"):
            monitoring.make_command(Stack(tmp_path, tmp_path), tmp_path, port)
        with pytest.raises(OSError, match="in use"):
            monitoring.serve(tmp_path, port)
