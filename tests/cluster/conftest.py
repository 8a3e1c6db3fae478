"""Three Ray machines in network namespaces, and a gateway that sends them requests."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.instruments.generator import Request, Target
from tests.cluster.machines import NamespaceCluster, serve, write_map, write_model

#: Every machine but the head has a GPU, which Ray counts and no model uses.
_OPTIONS = ("--num-gpus=0", "--num-gpus=1", "--num-gpus=1")
#: The time that a stopping replica waits for its last rows; HAProxy learns of the stop sooner.
_ENVIRONMENT = {"RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "5"}
_LANGUAGES = {"fr": "cpu", "de": "cpu", "es": "0"}
#: Other languages of the gateway, for models that a test adds.
_MORE = {"it": "cpu", "pt": "0"}


@pytest.fixture(scope="module")
def map_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A map of three models with three replicas each; any machine may fail."""
    folder = tmp_path_factory.mktemp("map")
    model = write_model(folder / "model", batch_ms=10)
    return write_map(
        folder / "map.json",
        _LANGUAGES,
        model=str(model),
        replicas=3,
        max_replicas_per_machine=2,
        gpus=0.5,
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, map_path) -> Iterator[NamespaceCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with serve(
        folder, map_path, options=_OPTIONS, environment=_ENVIRONMENT, has_gpus=True
    ) as started:
        yield started


@pytest.fixture(scope="module")
def target(cluster, tmp_path_factory) -> Iterator[Target]:
    """A gateway of the cluster, and requests for two of its models."""
    run = tmp_path_factory.mktemp("gateway")
    map_path = write_map(run / "map.json", _LANGUAGES | _MORE, replicas=3)
    with cluster.start_gateway(run, map_path) as gateway:
        yield gateway.aim([_ask(number) for number in range(64)])


def _ask(number: int) -> Request:
    text, target = f"Good morning {number}", ("fr", "de")[number % 2]
    body = {"src_lang": "en", "src_text": text, "tgt_lang": target}
    return Request(json.dumps(body).encode(), "/translate")
