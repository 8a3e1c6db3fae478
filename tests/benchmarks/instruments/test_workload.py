"""The requests of benchmarks: the same in every run, in the form of each task."""

from __future__ import annotations

import pytest

from benchmarks.instruments.workload import draw_requests
from contract.tasks import CAPTIONING, CLASSIFICATION, DETECTION, PATHS, TRANSLATION


@pytest.mark.parametrize(
    ("task", "start"),
    [
        (CAPTIONING, b"\x93NUMPY"),
        (CLASSIFICATION, b"\xff\xd8\xff"),
        (DETECTION, b"\xff\xd8\xff"),
        (TRANSLATION, b'{"src_lang"'),
    ],
)
def test_requests_of_a_task_are_alike_in_every_run(task: str, start: bytes):
    drawn = draw_requests(task, 5, targets=("fr",))
    assert drawn == draw_requests(task, 5, targets=("fr",))
    assert len({request.body for request in drawn}) == 5
    assert {request.path for request in drawn} <= {PATHS[task], "/"}
    assert all(request.body.startswith(start) for request in drawn)
