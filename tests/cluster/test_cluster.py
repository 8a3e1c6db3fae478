"""The promises of a cluster of three machines, whichever part fails."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import requests

import catalog
from benchmarks.instruments.generator import Target
from contract.problems import CONTENT_TYPE
from ray_backend.deployment import explain_unplaced
from ray_backend.nodes import PORTS
from tests.cluster import faults
from tests.cluster.faults import list_pids, suffer
from tests.cluster.machines import NamespaceCluster, wait_until, write_map, write_model
from tests.cluster.namespaces import Host
from tests.programs import run

#: Shorter than the absence that the docs allow, but longer than until others notice.
_ABSENT_S = 10
#: A text that takes minutes at a second per word.
_ENDLESS = "hello again " * 50
#: Replicas listen on some of these ports.
REPLICAS = range(PORTS.replicas, PORTS.replicas_grpc)


def test_models_are_where_the_map_says_and_have_their_share_of_a_gpu(cluster):
    spanish = cluster.dashboard.list_applications()["es"]
    assert spanish.model.needs["GPU"] == 0.5
    placed = sorted(str(replica.node_ip) for replica in spanish.model.replicas)
    assert len(placed) == 3
    assert cluster.head.address not in placed
    for model in cluster.models:
        places = Counter(each.node_ip for each in cluster.list_replicas(model))
        assert max(places.values()) <= 2, "more than the map says"


def test_the_dashboard_wants_the_token(cluster: NamespaceCluster):
    url = f"{cluster.dashboard_url}/api/serve/applications/"
    wrong = {"Authorization": "Bearer wrong"}
    assert requests.get(url, timeout=10).status_code == 401
    assert requests.get(url, headers=wrong, timeout=10).status_code in (401, 403)
    assert requests.put(url, json=cluster.config, timeout=10).status_code == 401


def test_replicas_want_the_key(cluster: NamespaceCluster):
    path = cluster.models["fr"]
    host = cluster.find_host(cluster.list_replicas("fr")[0])
    direct = [
        f"http://{host.address}:{port}"
        for _, port in list_listening(host)
        if port in REPLICAS
    ]
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answers = [
            requests.post(f"{url}{path}", json={}, headers=headers, timeout=10)
            for url in (*cluster.urls, *direct)
        ]
        # Replicas of other models answer 404 to this path.
        refused = [each for each in answers if each.status_code != 404]
        assert len(refused) > len(cluster.urls)
        assert {each.status_code for each in refused} == {401}
        assert {each.headers["Content-Type"] for each in refused} == {CONTENT_TYPE}


@pytest.mark.parametrize(
    "happen",
    [
        # First, because Ray may place a lost replica on the head again.
        pytest.param(partial(faults.lose_head, seconds=_ABSENT_S), id="head"),
        pytest.param(faults.kill_replica, id="replica"),
        pytest.param(faults.kill_node, id="node"),
    ],
)
def test_clients_notice_nothing_of(happen, cluster: NamespaceCluster, target: Target):
    assert suffer(cluster, target, happen).keys() == {"200"}


def test_no_request_outlives_its_deadline_because_a_link_is_cut(cluster, target):
    happen = partial(faults.cut_link, seconds=_ABSENT_S)
    statuses = suffer(cluster, target, happen)
    assert statuses
    assert statuses.keys() <= {"200", "429", "504"}


def test_a_redeployed_model_loses_no_request_and_disturbs_no_other(cluster, target):
    before = list_pids(cluster)
    statuses = suffer(cluster, target, faults.redeploy)
    after = list_pids(cluster)
    assert statuses.keys() == {"200"}
    assert before.pop("fr").isdisjoint(after.pop("fr"))
    assert before == after


@pytest.fixture(scope="module")
def more(
    cluster: NamespaceCluster, tmp_path_factory: pytest.TempPathFactory
) -> NamespaceCluster:
    """The cluster with two more models: a slow one, and one for a GPU that no machine has."""
    folder = tmp_path_factory.mktemp("more")
    model = write_model(folder / "stuck", word_ms=1000)
    one = {"batch_size": 1, "queue_size": 1, "response_timeout": 1}
    stuck = write_map(folder / "stuck.json", {"it": "cpu"}, model=str(model), **one)
    rare = write_map(folder / "rare.json", {"pt": "0"}, accelerator="H100")
    add(cluster, rare, max_replicas_per_node=1)
    add(cluster, stuck, health_check_period_s=0.5)
    wait_until(lambda: cluster.list_replicas("it"), "the model runs that gets stuck")
    return cluster


def add(cluster: NamespaceCluster, map_path: Path, **options: float) -> None:
    """Serve the model of a map too, with these options of Ray Serve."""
    config = cluster.write(catalog.load(map_path, is_cluster=True), has_gpus=True)
    (application,) = config["applications"]
    application["deployments"][0] |= options
    applications = [*cluster.config["applications"], application]
    cluster.put({**cluster.config, "applications": applications})


def ask(
    target: Target, language: str, text: str = "Hello", *, limit_ms: int = 60_000
) -> requests.Response:
    return requests.post(
        f"{target.url}/translate",
        json={"src_lang": "en", "src_text": text, "tgt_lang": language},
        headers={"X-Timeout-Ms": str(limit_ms)},
        timeout=limit_ms / 1000 + 10,
    )


def test_what_finds_no_place_in_a_stuck_replica_gets_429_and_the_replica_is_replaced(
    more, target
):
    before = list_pids(more)
    with ThreadPoolExecutor(6) as pool:
        asked = [
            pool.submit(ask, target, "it", f"{number}: {_ENDLESS}", limit_ms=2000)
            for number in range(6)
        ]
        answers = [each.result() for each in asked]
    assert {each.status_code for each in answers} <= {429, 503, 504}
    refused = [each for each in answers if each.status_code == 429]
    assert "1 rows are already waiting" in {each.json()["detail"] for each in refused}
    assert all(int(each.headers["Retry-After"]) > 0 for each in refused)
    wait_until(
        lambda: list_pids(more)["it"] - before["it"], "the stuck replica is replaced"
    )
    assert ask(target, "fr").status_code == 200
    after = list_pids(more)
    assert after.pop("it").isdisjoint(before.pop("it"))
    assert after == before


def test_a_model_without_a_place_says_so(more: NamespaceCluster, target: Target):
    applications = more.dashboard.list_applications()
    (line,) = explain_unplaced(applications, more.dashboard.list_machines())
    assert "1 GPU, accelerator H100" in line
    assert applications["pt"].model.deployment_config["max_replicas_per_node"] == 1
    answer = ask(target, "pt")
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:babelgate:not-ready"
    assert int(answer.headers["Retry-After"]) > 0
    reasons = requests.get(f"{target.url}/readyz", timeout=60).json()["reasons"]
    assert reasons["pt"]


def list_listening(host: Host) -> set[tuple[str, int]]:
    """Return the addresses and ports on which a host listens."""
    command = host.enter("ss", "--listening", "--tcp", "--numeric", "--no-header")
    places = re.findall(r" \[?(?:::ffff:)?(\S+?)\]?:(\d+) ", run(*command))
    return {(address, int(port)) for address, port in places}
