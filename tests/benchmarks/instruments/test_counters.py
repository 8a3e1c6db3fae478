"""The counts of the workers."""

from __future__ import annotations

import pytest
import requests

from benchmarks.instruments.counters import WorkerFigures, describe, read_counters


def test_figures_are_of_what_was_counted_in_between():
    before = {"Batches": 10, "Rows": 100, "QueueMs": 5000, "Tokens": 7}
    after = {
        "Batches": 14,
        "Rows": 140,
        "QueueMs": 9000,
        "ComputeMs": 200,
        "Tokens": 307,
        "PaddingTokens": 100,
    }
    assert describe(before, after) == WorkerFigures(
        batches=4,
        batch_fill=10,
        queue_ms=100,
        handler_ms=50,
        padding_share=0.25,
        tokens=300,
    )


def test_rays_page_has_the_same_counters_under_longer_names(
    monkeypatch: pytest.MonkeyPatch,
):
    page = requests.Response()
    page.status_code = 200
    page._content = b"""
ray_babelgaterows_total{ModelName="fr",SessionName="s"} 60
ray_babelgaterows_total{ModelName="de",SessionName="s"} 4
ray_tasks{State="RUNNING"} 3
"""
    monkeypatch.setattr(requests, "get", lambda url, timeout: page)
    assert read_counters("http://127.0.0.1") == {"Rows": 64}
