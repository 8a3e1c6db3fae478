"""Two machines of a Ray cluster (two addresses of this one), with gateways behind one nginx."""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import requests

from deploy.stack import DOOR, EXPORTER, GATEWAY, ROOT, Stack
from deploy.supervision import Supervision
from ray_backend.nodes import PORTS, REPLICAS, WORKERS
from tests.e2e.real_stack import (
    list_listening,
    list_ours,
    operate,
    read_metric,
    start_stack,
    wait_until,
)
from tests.programs import run

pytestmark = pytest.mark.faults

HEAD, OTHER = "127.0.0.2", "127.0.0.3"
LANGUAGES = ("fr", "de")
MAP = {
    "cuda_id": dict.fromkeys(LANGUAGES, "cpu"),
    # A replica is placed on the second machine only if the first has no room.
    "cluster": {"translation": {"replicas": 2}},
}
SAMPLE = {"src_lang": "en", "src_text": "Hello, how are you?", "tgt_lang": "fr"}
SCALING = (ROOT / "docs/scaling.md").read_text("utf-8")
Machines = tuple[Stack, Stack]


@pytest.fixture(scope="module")
def machines(tmp_path_factory, cache) -> Iterator[Machines]:
    """The head, and a machine that has joined it with a gateway."""
    runs = [tmp_path_factory.mktemp(name) for name in ("head", "other")]
    ray = ("--backend", "ray", "--address", HEAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BABELGATE_RAY_OPTIONS", "--num-cpus=1")
        with start_stack(runs[0], cache, *ray, content=MAP, address=HEAD) as head:
            (runs[1] / "ray").mkdir()
            for name in ("token", "key"):
                shutil.copy(head.node.folder / name, runs[1] / "ray")
            joins = ("--head", head.node.find(PORTS.gcs), "--address", OTHER)
            options = (*joins, "--gateway", "--map", str(head.map))
            with start_stack(
                runs[1], cache, *options, command="join", address=OTHER
            ) as other:
                yield head, other


@pytest.fixture(scope="module")
def shared_url(machines: Machines) -> str:
    """The URL of the head's nginx, which balances over both gateways as the page shows."""
    head, other = machines
    main = head.run / "nginx/nginx.conf"
    servers = (f"{m.node.address}:{GATEWAY + m.port_offset}" for m in machines)
    (line,) = re.findall(r"(?m)^    server 10\.0\.0\.1:8888( .*;)$", SCALING)
    ours = "\n".join(f"server {server}{line}" for server in servers)
    text, count = re.subn(r"server \S+ max_fails=0;", ours, main.read_text("utf-8"))
    assert count == 1
    (rules,) = re.findall(r"```nginx\n(proxy_next_upstream .*?)```", SCALING, re.DOTALL)
    text = text.replace("client_max_body_size 0;", f"client_max_body_size 0; {rules}")
    # A stopping gateway waits for the other machine's idle connections.
    main.write_text(re.sub(r"(keepalive_timeout) +30s;", r"\1 2s;", text))
    master = head.find_leader("nginx")
    before = {*master.children()}
    Supervision(head).signal("nginx", "HUP")
    wait_until(lambda: not before & {*master.children()})
    return head.url


def stop(machine: Stack, program: str) -> None:
    supervisorctl = (sys.executable, "-m", "supervisor.supervisorctl")
    run(*supervisorctl, "-s", f"unix://{machine.socket}", "stop", program)


def translate(url: str) -> requests.Response:
    return requests.post(url, json=SAMPLE, timeout=40)


def count_requests(gateway: Stack) -> float:
    """Return the translations of a gateway, by its own counter."""
    url = f"http://{gateway.node.address}:{GATEWAY + gateway.port_offset}/metrics"
    return read_metric(url, "babelgate_translation_requests_total", 'status="200"')


def test_both_gateways_translate(machines: Machines, shared_url: str):
    before = [count_requests(machine) for machine in machines]
    answers = [translate(shared_url) for _ in range(10)]
    said = {answer.json()["translated"] for answer in answers}
    assert said == {"Bonjour, comment allez-vous ?"}
    after = [count_requests(machine) for machine in machines]
    assert all(later > sooner for sooner, later in zip(before, after, strict=True))


def test_a_gateway_that_is_gone_costs_no_later_request(machines, shared_url):
    stop(machines[1], "gateway")
    try:
        assert [translate(shared_url).status_code for _ in range(10)] == [200] * 10
    finally:
        Supervision(machines[1]).restart("gateway")
    before = 0.0
    with suppress(requests.RequestException):
        before = count_requests(machines[1])

    def is_asked() -> bool:
        translate(shared_url)
        with suppress(requests.RequestException):
            return count_requests(machines[1]) > before
        return False

    wait_until(is_asked)


def test_the_status_shows_both_machines(machines: Machines, cache: Path):
    for machine in machines:
        said = operate(machine.run, cache, "status")
        for words in ("2/2", f"{HEAD} has 1 CPU", f"{OTHER} has 1 CPU"):
            assert words in said


def test_only_what_the_page_lists_listens(machines: Machines):
    kernels = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    known = {DOOR, GATEWAY, EXPORTER, *PORTS.fixed}
    known |= {*range(PORTS.replicas, PORTS.replicas + REPLICAS)}
    known |= {*range(PORTS.workers, PORTS.workers + WORKERS)}
    own = {PORTS.ingress, PORTS.haproxy_stats, PORTS.haproxy_metrics, PORTS.dashboard}
    for machine in machines:
        ours = {process.pid for process in list_ours(machine.run)}
        connections = psutil.net_connections("tcp")
        listening = list_listening(one for one in connections if one.pid in ours)
        moved = {port - machine.port_offset for _, port in listening if port < kernels}
        assert moved
        assert moved <= known
        places = {ip for ip, port in listening if port - machine.port_offset in own}
        assert places <= {machine.node.address}
        chosen = [ip for ip, port in listening if port >= kernels]
        assert len(chosen) <= 4  # one for each replica at most
