"""Tables and JSON files."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.figures import Spread
from benchmarks.report import Content, Table, save, to_markdown

TABLE = Table(("clients", "requests/s"), (("1", "9.00"), ("64", "180")))


def test_a_table_is_markdown():
    assert to_markdown(TABLE) == (
        "| clients | requests/s |\n| --- | --- |\n| 1 | 9.00 |\n| 64 | 180 |\n"
    )


def test_a_file_says_on_which_machine_it_was_measured(tmp_path: Path):
    out = tmp_path / "new" / "figures.json"
    values = (Spread(1, 0.5, 2), float("nan"), Path("a/b"), None, "텍스트")
    save(out, Content("stack", {"seconds": 15}, {1: values}))
    text = out.read_text("utf-8")
    assert "텍스트" in text
    document = json.loads(text)
    assert document["benchmark"] == "stack"
    assert document["options"] == {"seconds": 15}
    assert document["results"] == {
        "1": [{"median": 1, "low": 0.5, "high": 2}, None, "a/b", None, "텍스트"]
    }
    assert document["machine"]["cores"] >= 1
    assert "ctranslate2" in document["machine"]["packages"]
