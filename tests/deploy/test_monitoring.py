"""The files of `deploy/monitoring`, judged by promtool and against the stack's ports."""

from __future__ import annotations

import json
import socket
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import monitoring
from deploy.monitoring import MONITORING
from deploy.stack import DOOR, EXPORTER, METRICS, ROOT, Stack, StackError
from tests.programs import run

#: Where Ray lists them.
MACHINES = "prom_metrics_service_discovery.json"
METRICS_FILE = ROOT / "torchserve_backend/metrics.yaml"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))


def read_targets(configuration: Path) -> dict[str, str]:
    jobs = yaml.safe_load(configuration.read_text("utf-8"))["scrape_configs"]
    return {job["job_name"]: _read_target(job) for job in jobs}


def _read_target(job: dict[str, Any]) -> str:
    if "file_sd_configs" in job:
        return str(job["file_sd_configs"][0]["files"][0])
    return str(job["static_configs"][0]["targets"][0])


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


def test_the_files_are_for_the_usual_ports():
    assert read_targets(MONITORING / "prometheus.yml") == {
        "gateway": f"127.0.0.1:{DOOR}",
        "registrar": f"127.0.0.1:{EXPORTER}",
        "torchserve": f"127.0.0.1:{METRICS}",
        "ray": f"../../run/ray/sessions/{MACHINES}",
    }


def test_a_cluster_is_scraped_wherever_its_machines_are(tmp_path: Path, promtool: Path):
    stack = Stack(tmp_path, tmp_path, None, 2000, backend="ray")
    configuration = monitoring.write_configuration(stack)
    found = read_targets(configuration)
    assert found == {
        "gateway": "127.0.0.1:9777",
        "registrar": "127.0.0.1:10083",
        "ray": f"../ray/sessions/{MACHINES}",
    }
    assert "SUCCESS" in run(promtool, "check", "config", configuration)


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


def test_a_moved_stack_is_scraped_where_it_is(tmp_path: Path, promtool: Path):
    moved = Stack(tmp_path, tmp_path, None, 2000)
    command = monitoring.make_command(moved, promtool.with_name("prometheus"), 11090)
    configuration = tmp_path / "prometheus/prometheus.yml"
    assert f"--config.file={configuration}" in command
    assert "--web.listen-address=127.0.0.1:11090" in command
    assert read_targets(configuration) == {
        "gateway": "127.0.0.1:9777",
        "registrar": "127.0.0.1:10083",
        "torchserve": "127.0.0.1:10082",
    }
    said = run(promtool, "check", "config", configuration)
    assert "1 rule files found" in said


def test_a_taken_port_is_told(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StackError, match=f"Port {port} is taken.*--port"):
            monitoring.make_command(Stack(tmp_path, tmp_path), tmp_path, port)


def test_the_dashboard_asks_the_prometheus_that_is_chosen_in_it():
    (variable,) = DASHBOARD["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    wanted = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"] == wanted
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {
            wanted["uid"]
        }


def test_panels_have_their_own_places_and_numbers():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)
    for one, other in combinations(panels, 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (
            one["title"],
            other["title"],
        )


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two places on the dashboard have a cell in common."""
    return all(
        one[start] < other[start] + other[size]
        and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )
