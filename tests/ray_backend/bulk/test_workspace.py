"""What is kept beside the results of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.errors import OutputError
from ray_backend.bulk.folder import Folder
from ray_backend.bulk.workspace import Workspace


def test_a_machine_that_does_not_see_the_results_says_so(tmp_path: Path):
    mark = Workspace(Folder(tmp_path / "seen")).leave_mark()
    Workspace(Folder(tmp_path / "seen")).find_mark(mark)
    with pytest.raises(OutputError, match=f"does not see .*unseen/{mark}"):
        Workspace(Folder(tmp_path / "unseen")).find_mark(mark)
