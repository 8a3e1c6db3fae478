"""The gateway's library of glossaries, which ends with it."""

from __future__ import annotations

from pathlib import Path

import psutil

from gateway.glossaries.library import Glossaries
from gateway.settings import Settings


def test_the_database_is_closed_with_the_glossaries(tmp_path: Path):
    database = tmp_path / "glossaries.db"
    glossaries = Glossaries(Settings(database_url=f"sqlite:///{database}"))
    assert glossaries.list_all("open") == []
    assert str(database) in {file.path for file in psutil.Process().open_files()}
    glossaries.close()
    assert str(database) not in {file.path for file in psutil.Process().open_files()}
