"""Reads `cases.yaml`, the tables of the tests of texts."""

from pathlib import Path
from typing import Any

import pytest
import yaml

_TABLES = yaml.load(
    Path(__file__).with_name("cases.yaml").read_text("utf-8"), yaml.CSafeLoader
)


def list_rows(table: str) -> list[Any]:
    """Return the rows of a table as parameters of a test, with their ids if it has any."""
    rows = _TABLES[table]
    if isinstance(rows, list):
        return rows
    return [pytest.param(*row, id=name) for name, row in rows.items()]
