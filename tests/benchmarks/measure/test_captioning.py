"""How the captioning benchmark deals out the cores."""

from __future__ import annotations

import os

import psutil
import pytest

from benchmarks.instruments.load import deal_cores


def test_the_cores_are_dealt_out_and_given_back():
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        with pytest.raises(ValueError, match="one core"), deal_cores({}):
            pass
        return
    child = psutil.Popen(["sleep", "60"])
    try:
        with deal_cores({"stack": child}):
            mine, its = os.sched_getaffinity(0), set(child.cpu_affinity())
            assert mine
            assert mine.isdisjoint(its)
            assert mine | its == before
        assert os.sched_getaffinity(0) == set(child.cpu_affinity()) == before
    finally:
        child.kill()
        child.wait()
