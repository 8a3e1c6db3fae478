"""deploy/compose.yaml agrees with the image, supervisord's time limits and the shared files."""

import re
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.stack import DOOR, EXPORTER, GATEWAY, INFERENCE, ROOT, Stack
from tests.deploy.test_container import PROGRAMS
from tests.test_docs import read_nginx

FOLDER = ROOT / "deploy"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: s for name, s in SERVICES.items() if s["image"] == "babelgate"}
STACK = RawConfigParser()
STACK.read_string(Stack(Path("/srv"), Path("map.json")).render_supervisor(Path("/")))
#: Compose's default limit for a program to end.
DEFAULT_STOP = "10s"


def test_every_program_of_the_stack_has_a_service():
    assert set(OURS) == {*PROGRAMS, "network", "prepare"}
    for name in (*PROGRAMS, "prepare"):
        assert OURS[name]["command"] == [name]


def test_our_containers_have_no_rights_and_nginx_its_files():
    for name, service in OURS.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    wanted = int(read_nginx("worker_rlimit_nofile"))
    assert OURS["nginx"]["ulimits"]["nofile"] >= wanted


def test_all_share_one_network_and_only_two_ports_leave_it():
    (owner,) = (name for name, s in SERVICES.items() if "network_mode" not in s)
    others = {s["network_mode"] for s in SERVICES.values() if "network_mode" in s}
    assert others == {f"service:{owner}"}
    ports = {name: s["ports"] for name, s in SERVICES.items() if "ports" in s}
    assert ports == {owner: [f"{DOOR}:{DOOR}", "127.0.0.1:3000:3000"]}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gets_the_time_and_the_signal_to_end_that_supervisord_gives(name):
    section = STACK[f"program:{name}"]
    stop = SERVICES[name].get("stop_grace_period", DEFAULT_STOP)
    assert stop == f"{section.get('stopwaitsecs', '10')}s"
    signal = SERVICES[name].get("stop_signal", "SIGTERM")
    assert signal == f"SIG{section.get('stopsignal', 'TERM')}"


def test_programs_wait_for_the_run_directory_and_share_it():
    for name in PROGRAMS:
        service = SERVICES[name]
        assert service["volumes"] == SERVICES["prepare"]["volumes"], name
        prepared = {"condition": "service_completed_successfully"}
        assert service["depends_on"] == {"prepare": prepared}


def test_health_checks_ask_the_ports_that_programs_have():
    asked = {
        name: int(found[1])
        for name, service in OURS.items()
        if (found := re.search(r":(\d+)/", str(service["healthcheck"].get("test"))))
    }
    assert asked == {
        "torchserve": INFERENCE,
        "registrar": EXPORTER,
        "gateway": GATEWAY,
        "nginx": DOOR,
    }


def test_what_is_mounted_is_there_and_what_is_named_is_declared():
    mounts = [m for s in SERVICES.values() for m in s.get("volumes", ())]
    sources = [mount.partition(":")[0] for mount in mounts]
    paths = {source for source in sources if source.startswith(".")}
    assert paths == {"./monitoring", "./monitoring/dashboard.json"}
    assert all((FOLDER / path).exists() for path in paths)
    assert set(sources) - paths == COMPOSE["volumes"].keys()
    configs = {c["source"] for s in SERVICES.values() for c in s.get("configs", ())}
    assert configs == COMPOSE["configs"].keys()


def test_grafana_finds_prometheus_and_our_dashboard():
    datasource, dashboards = (
        yaml.safe_load(COMPOSE["configs"][name]["content"])
        for name in ("datasource", "dashboards")
    )
    (listening,) = re.findall(
        r"--web.listen-address=(\S+?)['\"]", str(SERVICES["prometheus"]["command"])
    )
    assert datasource["datasources"][0]["url"] == f"http://{listening}"
    folder = dashboards["providers"][0]["options"]["path"]
    mount = f"./monitoring/dashboard.json:{folder}/babelgate.json:ro"
    assert mount in SERVICES["grafana"]["volumes"]
