"""The input of Ray Serve: the application, and the counters on its metrics page."""

from __future__ import annotations

import os

import pytest
from pydantic import ValidationError
from ray.serve import Application
from ray.util import metrics

from ray_backend.application import BatchCounters, ReplicaServer, build
from ray_backend.config import write_arguments
from tests.ray_backend.conftest import DIGEST, make_arguments


def test_the_arguments_of_the_configuration_are_an_application():
    args = write_arguments(make_arguments().model, DIGEST)
    assert isinstance(build(args), Application)


def test_arguments_of_another_version_are_refused():
    args = make_arguments().model_dump(mode="json")
    with pytest.raises(ValidationError, match="language"):
        build(args | {"language": "ko"})
    with pytest.raises(ValidationError, match="batchsize"):
        build(args | {"settings": {"batchsize": 8}})


@pytest.mark.parametrize(("given", "left"), [("1", None), ("4", "4"), (None, None)])
def test_ray_does_not_decide_how_many_threads_compute(
    monkeypatch: pytest.MonkeyPatch, given: str | None, left: str | None
):
    monkeypatch.setenv("OMP_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    ReplicaServer(make_arguments().model_dump(mode="json"))
    assert os.environ.get("OMP_NUM_THREADS") == left


def test_declared_counts_are_added_and_others_dropped(monkeypatch: pytest.MonkeyPatch):
    added: list[tuple[str, float, dict[str, str]]] = []

    def inc(counter: metrics.Counter, value: float, tags: dict[str, str]) -> None:
        assert value > 0  # Ray takes no others
        added.append((counter.info["name"], value, tags))

    monkeypatch.setattr(metrics.Counter, "inc", inc)
    counters = BatchCounters("ko")
    counters.add({"BabelgateRows": 3, "BabelgateComputeMs": 0, "Unknown": 1})
    assert added == [("BabelgateRows", 3, {"ModelName": "ko"})]
