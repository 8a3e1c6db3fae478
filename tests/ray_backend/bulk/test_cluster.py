"""What a run says when the work has failed."""

from __future__ import annotations

import pytest

from ray_backend.bulk.cluster import _explain

RAISED = "clients.errors.OutputError: here does not see /dst"
ADVICE = (
    "Failed to map after 4/4 attempts (total backoff 7.0s).\nTo change retry attempts"
)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(f"traceback\n{RAISED}\n", id="at once"),
        pytest.param(f"traceback\n{RAISED}\n{ADVICE}\n", id="after several attempts"),
    ],
)
def test_what_was_raised_is_said(said: str):
    assert _explain(RuntimeError(said)) == f"the work has failed: {RAISED}"
