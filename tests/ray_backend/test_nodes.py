"""A machine's ports, files, command and environment, checked with Ray's own programs."""

import os
import re
import socket
from pathlib import Path

import pytest
from ray.scripts.scripts import start
from ray.serve._private import constants

from benchmarks.instruments.running import claim_port_offset
from contract import durable
from deploy.stack import GATEWAY, ROOT
from ray_backend import nodes
from ray_backend.nodes import PORTS, REPLICAS, WORKERS, AddressError, Node
from tests.programs import call, run

#: Ray's default ports.
THEIRS = {6379, 8265, 8404, 8500, 9101, 9500, 10001, 44217, 44227, 52365}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node("10.0.0.2", tmp_path / "ray", "10.0.0.1:7800", 2000)


HEAD = Node("127.0.0.1", Path("/srv/run/ray"))


def read_options(node: Node, options: str = "") -> dict[str, str]:
    _, verb, *rest = nodes.write_command(node, options)
    assert verb == "start"
    return dict(option.partition("=")[::2] for option in rest)


def list_ports(node: Node) -> set[int]:
    """List the ports that a command and its environment name."""
    given = {**read_options(node), **nodes.make_environment(node)}
    return {int(v) for k, v in given.items() if "port" in k.lower() and v.isdecimal()}


@pytest.mark.parametrize("head", ["", "10.0.0.1:7800"], ids=["the head", "another"])
def test_ray_knows_every_option_and_every_port_is_ours(head: str):
    node = Node("10.0.0.2", Path("ray"), head)
    known = {name for parameter in start.params for name in parameter.opts}
    assert read_options(node).keys() <= known
    ports = list_ports(node)
    assert ports - set(PORTS.fixed) <= {17000, 17500, 18000, 18999}
    assert not ports & THEIRS


def test_serve_knows_every_variable():
    text = Path(constants.__file__).read_text("utf-8")
    named = {n for n in nodes.make_environment(HEAD) if n.startswith("RAY_SERVE_")}
    assert named
    assert {name for name in named if f'"{name}"' not in text} == set()


def test_an_offset_moves_every_port_but_the_heads(node: Node):
    assert list_ports(node) == {
        port + 2000 for port in list_ports(Node(node.address, node.folder, node.head))
    }
    assert node.find(PORTS.ingress) == "10.0.0.2:9810"
    assert node.find_on_head(PORTS.ingress) == "10.0.0.1:7810"
    assert read_options(node)["--address"] == "10.0.0.1:7800"
    assert HEAD.find_on_head(PORTS.dashboard) == HEAD.find(PORTS.dashboard)


def test_the_page_lists_every_port():
    page = (ROOT / "docs/scaling.md").read_text("utf-8")
    section = page.partition("\n## Ports\n")[2].partition("\n## ")[0]
    cells = " ".join(re.findall(r"(?m)^\| (\d[^|]*) \|", section))
    listed = [int(number) for number in re.findall(r"\d+", cells)]
    ranges = {
        PORTS.replicas,
        PORTS.replicas + REPLICAS - 1,
        PORTS.replicas_grpc,
        PORTS.replicas_grpc + REPLICAS - 1,
        PORTS.workers,
        PORTS.workers + WORKERS - 1,
    }
    assert sorted(listed) == sorted({*PORTS.fixed, *ranges, GATEWAY})


def test_an_operators_options_come_last(node: Node):
    command = nodes.write_command(node, "--num-gpus=2 --labels='zone=a b'")
    assert command[-2:] == ["--num-gpus=2", "--labels=zone=a b"]


@pytest.mark.faults
def test_a_head_ends_whose_dashboard_cannot_start(tmp_path: Path):
    node = Node("127.0.0.1", tmp_path, offset=claim_port_offset())
    node.link.symlink_to(tmp_path)
    durable.make_secret(node.token_file)
    (tmp_path / "ha").mkdir()
    environment = os.environ | nodes.make_environment(node)
    place = node.address, node.place(PORTS.dashboard)
    try:
        with socket.create_server(place):
            command = nodes.write_command(node, "--num-cpus=1")
            done = call(*command, env=environment)
    finally:
        node.link.unlink()
    assert done.returncode == 1


def test_paths_of_sockets_are_short_enough(node: Node):
    longest = 107
    session = "session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store.10"
    haproxy = f"{'0' * 56}/metrics.sock"
    for path in (node.link / session, node.link / "ha" / haproxy):
        assert len(bytes(path)) <= longest


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.2"])
def test_only_one_machine_alone_is_on_loopback(address: str):
    environment = nodes.make_environment(Node(address, Path("ray")))
    is_shared = environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "1"
    assert is_shared is (address != "127.0.0.1")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("0.0.0.0", "one IPv4 address"),
        ("::1", "one IPv4 address"),
        ("ray.example.org", "one IPv4 address"),
        ("127.0.0.1", "serves only one machine"),
        ("10.0.0.1:http", "a head such as 10.0.0.1:7800"),
        ("10.0.0.1:78000", "a head such as 10.0.0.1:7800"),
    ],
)
def test_what_is_not_a_head_is_refused(text: str, fault: str):
    with pytest.raises(AddressError, match=f"^--head: .*{fault}"):
        nodes.read_head(text)


def test_an_address_that_does_not_do_is_refused():
    with pytest.raises(AddressError, match="^--address: expected one IPv4 address"):
        nodes.read_address("0.0.0.0")
    with pytest.raises(AddressError, match="There is no route to 255"):
        nodes.find_address("255.255.255.255:7800")


def test_a_heads_port_may_be_left_out():
    for port in ("7800", "9800"):
        assert nodes.read_head(f"10.0.0.1:{port}") == f"10.0.0.1:{port}"
    assert nodes.read_head("10.0.0.1") == "10.0.0.1:7800"
    assert nodes.find_address("127.0.0.1:7800") == "127.0.0.1"


CONFIGURATION = """global
    stats socket /tmp/admin.sock mode 666 level admin
frontend prometheus
    bind :9101
frontend http_frontend
    bind *:8000
listen stats
  bind *:8404
"""


def test_haproxy_listens_on_the_machines_address_and_obeys_this_user(tmp_path: Path):
    file = tmp_path / "haproxy.cfg"
    file.write_text(CONFIGURATION)
    given = {"BABELGATE_RAY_ADDRESS": "10.0.0.2", "BABELGATE_HAPROXY": "/bin/echo"}
    command = (nodes.HAPROXY, "-db", "-f", file, "-sf", "1")
    assert run(*command, env=os.environ | given) == f"-db -f {file} -sf 1\n"
    written = file.read_text()
    assert re.findall("bind (.*)", written) == [
        f"10.0.0.2:{port}" for port in (9101, 8000, 8404)
    ]
    assert "mode 600 level admin" in written


def test_haproxys_template_binds_as_we_expect():
    from ray.serve._private import haproxy_templates

    template = haproxy_templates.HAPROXY_CONFIG_TEMPLATE
    binds = set(re.findall(r"(?m)^ *bind (.*?):", template))
    assert binds == {
        "",
        "*",
        "{{ config.frontend_host }}",
        "{{ config.grpc_frontend_host }}",
    }
    assert "mode 666" in template


def test_no_port_is_in_the_kernels_range_for_outgoing_connections():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert PORTS.workers + WORKERS <= first
