"""Runs whose workers die, and runs on a full cluster."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

from clients.errors import ClientError
from contract import variables
from ray_backend.bulk import executor
from ray_backend.bulk.executor import (
    GONE_S,
    PATIENCE_S,
    STOPPED,
    RayExecutor,
    WorkerPool,
    find_cluster,
    fit,
)
from ray_backend.bulk.job import Chunk
from tests.programs import call
from tests.ray_backend import fake_ray
from tests.ray_backend.bulk.conftest import ActorCall, Died
from tests.ray_backend.fake_ray import CPUS, GPUS, TOKEN, FakeRay, serve


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    monkeypatch.setenv(variables.RAY_TOKEN_FILE.name, str(path))
    monkeypatch.delenv(variables.RAY_DASHBOARD_URL.name, raising=False)
    return path


@pytest.fixture
def fake(token: Path) -> Iterator[FakeRay]:
    with serve() as server:
        yield server


HEAD = "127.0.0.1:7800"


def test_a_cluster_is_found_with_this_machine_in_it(fake, monkeypatch):
    own = {"node_ip": "127.0.0.1", "state": "ALIVE", "resources_total": {"CPU": 4}}
    monkeypatch.setattr(fake_ray, "MACHINES", [*fake_ray.MACHINES, own])
    cluster = find_cluster(HEAD)
    assert (cluster.head, cluster.address) == (HEAD, "127.0.0.1")
    assert [each.node_ip for each in cluster.machines] == ["10.0.0.1", "127.0.0.1"]
    monkeypatch.setenv(variables.RAY_DASHBOARD_URL.name, fake.url)
    assert find_cluster("10.0.0.9").head == "10.0.0.9:7800"


@pytest.mark.usefixtures("fake")
def test_a_machine_of_no_cluster_is_told_which_are():
    with pytest.raises(ClientError) as caught:
        find_cluster(HEAD)
    assert str(caught.value) == (
        f"this machine is not in the cluster at {HEAD}, whose machines are 10.0.0.1: run "
        "the command on one of them"
    )


def test_an_address_where_nobody_answers_is_named(token: Path):
    with pytest.raises(ClientError, match=r"^no cluster at 127.0.0.1:1: .* not answer"):
        find_cluster("127.0.0.1:1")


@pytest.mark.parametrize("head", ["", "head:7800", "10.0.0.1:x", "10.0.0.1:7800:1"])
def test_an_address_that_is_none_is_refused(head: str):
    with pytest.raises(ClientError) as caught:
        find_cluster(head)
    assert str(caught.value) == (
        f"--address {head}: expected a head such as 10.0.0.1:7800"
    )


@pytest.mark.parametrize(
    ("pool", "size"),
    [
        (WorkerPool(3, 1, 0), 3),
        (WorkerPool(100, 3, 0), 5),
        (WorkerPool(100, 1, 0.1), 20 - 4),
        (WorkerPool(100, 1, 0.5), 4),
        (WorkerPool(100, 1, 1, "H100"), 2),
    ],
    ids=["as asked", "cores", "cores are scarcer", "half a GPU each", "that GPU"],
)
def test_a_pool_has_no_more_workers_than_places(pool, size):
    assert fit(pool, (CPUS, GPUS)) == replace(pool, size=size)


@pytest.mark.parametrize(
    ("pool", "needs"),
    [
        (WorkerPool(1, 17, 0), "17 CPU"),
        (WorkerPool(1, 1, 1, "A100"), "1 CPU, 1 GPU, accelerator A100"),
    ],
    ids=["cores", "another GPU"],
)
def test_a_worker_that_no_machine_can_take_is_refused(pool, needs):
    with pytest.raises(ClientError) as caught:
        fit(pool, (CPUS, GPUS))
    assert str(caught.value) == (
        f"no machine has room for a worker. Each needs {needs}; 10.0.0.1 has 2 CPU; "
        "10.0.0.2 has 16 CPU, 2 GPU, accelerator H100."
    )


def answer(items: Sequence[Any], deadly: Any = ()) -> tuple[list[Any], Counter[str]]:
    """Return the answers, and how often a worker was asked for each group of items."""
    asked: Counter[str] = Counter()

    def echo(items: Sequence[Any]) -> Sequence[Any]:
        asked["".join(map(str, items))] += 1
        if {*deadly} & {*items}:
            raise Died
        return items

    workers = RayExecutor(WorkerPool(1, 1, 0), print)
    ((_, answers),) = workers.run(lambda: echo, iter([Chunk((), items)]))
    return [*answers], asked


@given(st.integers(0, 40), st.sets(st.integers(0, 39), max_size=3))
def test_only_an_item_that_ends_each_worker_has_no_answer(size, deadly):
    expected = [None if n in deadly else n for n in range(size)]
    assert answer(range(size), deadly)[0] == expected


def test_items_are_divided_soon_and_one_alone_is_given_up_late():
    """If a machine dies, the video in progress is not to blame."""
    answers, asked = answer("abcd", "c")
    assert answers == ["a", "b", None, "d"]
    assert asked == {"abcd": 2, "ab": 1, "cd": 2, "c": 5, "d": 1}


ROOM, CLUSTER = ("room", "taken"), ("the cluster", "no answer")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([ROOM] * 9, []),
        ([ROOM] * 30, ["waiting for room: taken"]),
        ([ROOM] * 9 + [("", "")] + [ROOM] * 9, []),
        ([ROOM] * 12 + [("", "")] + [ROOM] * 12, ["waiting for room: taken"] * 2),
        ([CLUSTER] * 30, ["waiting for the cluster: no answer"]),
        ([ROOM] * 9 + [CLUSTER] * 9 + [ROOM] * 9, []),
    ],
    ids=["not yet", "once", "room was found", "again", "away", "something else"],
)
def test_what_lasts_is_said_once(seen, expected):
    said: list[str] = []
    workers = RayExecutor(WorkerPool(1, 1, 0), said.append)
    for second, (kind, reason) in enumerate(seen):
        workers.note_stall(kind, reason, float(second))
    assert said == expected
    assert PATIENCE_S == 10


def test_a_cluster_that_stays_away_ends_the_run():
    workers = RayExecutor(WorkerPool(1, 1, 0), print)
    workers.note_stall(*CLUSTER, 7.0)
    workers.note_stall(*CLUSTER, 6.0 + GONE_S)
    with pytest.raises(ClientError) as caught:
        workers.note_stall(*CLUSTER, 7.0 + GONE_S)
    assert str(caught.value) == "the cluster has been unreachable for 600 s: no answer"


def shout(items: Sequence[str]) -> Sequence[str]:
    if "kill" in items:
        raise Died
    return [item.upper() for item in items]


def test_every_chunk_is_answered_though_workers_end(monkeypatch: pytest.MonkeyPatch):
    answered = iter([False, False])  # at first none is, as no worker has a place

    def wait(calls: list[ActorCall], timeout: float) -> tuple[list[ActorCall], Any]:
        return calls[: next(answered, True)], None

    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(executor, "PATIENCE_S", 0)
    monkeypatch.setattr(executor, "list_free", lambda cluster: [CPUS])
    chunks = [Chunk((), texts) for texts in (["a"], [], ["b", "kill", "c"], ["d"])]
    said: list[str] = []
    workers = RayExecutor(WorkerPool(2, 1, 0), said.append)
    found = workers.run(lambda: shout, iter(chunks))
    answers = {tuple(chunk.items): [*each] for chunk, each in found}
    expected = {("a",): ["A"], (): [], ("b", "kill", "c"): ["B", None, "C"]}
    assert answers == expected | {("d",): ["D"]}
    assert said == [
        "waiting for room: other work has taken it. Each needs 1 CPU; 10.0.0.1 has 2 CPU."
    ]


def test_a_request_is_not_to_blame_for_another_ones_end(monkeypatch):
    def wait(calls: list[ActorCall], timeout: float) -> tuple[list[ActorCall], Any]:
        for each in calls:
            if each.given == (["kill"],):
                with suppress(ray.exceptions.RayActorError):
                    each.get()  # all calls of this worker end before they are read
        return calls[:1], None

    monkeypatch.setattr(ray, "wait", wait)
    chunks = (Chunk((), [text]) for text in ("long", "kill"))
    workers = RayExecutor(WorkerPool(1, 1, 0), print)
    found = [[*answers] for _, answers in workers.run(lambda: shout, chunks)]
    assert found == [[None], ["LONG"]]


def test_workers_that_end_while_they_load_end_the_run():
    loads = count()

    def load() -> Any:
        next(loads)
        raise Died

    workers = RayExecutor(WorkerPool(2, 1, 0), print)
    with pytest.raises(ClientError, match="the work has failed: The actor"):
        list(workers.run(load, iter([Chunk((), ["a"])])))
    assert 10 <= next(loads) <= 24


def test_a_run_that_ray_does_not_let_go_is_ended_and_says_nothing_of_rays():
    script = """
import contextlib, sys, time, types
ray = types.ModuleType("ray")
ray.init = lambda **_: print("(raylet) a machine has died")
ray.shutdown = lambda: time.sleep(60)
sys.modules["ray"] = ray
from ray_backend.bulk import executor
executor._END_S, executor.gettempdir = 0, lambda: "/tmp"
executor.TemporaryDirectory = lambda **_: contextlib.nullcontext()
pool = executor.WorkerPool(1, 1, 0)
with executor.connect(pool, lambda line: print(line, file=sys.stderr)):
    raise KeyboardInterrupt
"""
    done = call(sys.executable, "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{STOPPED}\n")
