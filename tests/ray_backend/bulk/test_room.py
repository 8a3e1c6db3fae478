"""How many workers a cluster has room for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clients.errors import ClientError
from ray_backend.bulk.room import Pool, explain, fit
from ray_backend.dashboard import Machine


def make_machine(address: str, **resources: float) -> Machine:
    named = {
        name.replace("accelerator_", "accelerator_type:"): n
        for name, n in resources.items()
    }
    return Machine(node_ip=address, state="ALIVE", resources_total=named)


SMALL = make_machine("10.0.0.1", CPU=2)
LARGE = make_machine("10.0.0.2", CPU=16, GPU=2, accelerator_H100=1)


@pytest.mark.parametrize(
    ("pool", "size"),
    [
        (Pool(3, 1, 0), 3),
        (Pool(100, 1, 0), 18),
        (Pool(100, 3, 0), 5),
        (Pool(100, 1, 0.1), 20 - 4),
        (Pool(100, 1, 0.5), 4),
        (Pool(100, 1, 1, "H100"), 2),
    ],
    ids=[
        *("as asked", "a core each", "three cores each", "cores are scarcer"),
        *("half a GPU each", "that GPU"),
    ],
)
def test_a_pool_has_no_more_workers_than_places(pool, size):
    assert fit(pool, (SMALL, LARGE)) == replace(pool, size=size)


@pytest.mark.parametrize(
    ("pool", "needs"),
    [
        (Pool(1, 17, 0), "17 CPU"),
        (Pool(1, 1, 1, "A100"), "1 CPU, 1 GPU, accelerator A100"),
        (Pool(1, 1, 3), "1 CPU, 3 GPU"),
    ],
    ids=["cores", "another GPU", "GPUs"],
)
def test_a_worker_that_no_machine_can_take_is_refused(pool, needs):
    with pytest.raises(ClientError) as caught:
        fit(pool, (SMALL, LARGE))
    assert (
        str(caught.value)
        == f"no machine can take a worker. {explain(pool, (SMALL, LARGE))}"
    )
    assert str(caught.value).endswith(
        f"Each needs {needs}; 10.0.0.1 has 2 CPU; "
        "10.0.0.2 has 16 CPU, 2 GPU, accelerator H100."
    )
