"""An unused model is unloaded on the real stack, and loaded again on demand."""

import pytest

from tests.e2e.real_stack import operate, start_stack, use_after_unloading

pytestmark = pytest.mark.faults

MAP = {"cuda_id": {"fr": "cpu"}, "translation": {"engine": "echo", "idle_unload_s": 2}}


def test_an_unused_model_is_unloaded_and_comes_back(tmp_path_factory, cache):
    run = tmp_path_factory.mktemp("idle") / "run"
    with start_stack(run, cache, content=MAP) as stack:
        use_after_unloading(stack.url)
        assert "RUNNING" in operate(run, cache, "status")
