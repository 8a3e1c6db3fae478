"""The lines on which checkpoints are compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.measure.models import draw_lines, read_lines
from models.phrasebook_recipe.items import LANGUAGES

LINES = [{"en": "Good morning", "fr": "Bonjour"}, {"en": 'Say "no"', "fr": "Dis non"}]
FILES = {
    "lines.csv": 'en,fr\nGood morning,Bonjour\n"Say ""no""",Dis non\n',
    "lines.tsv": '\ufefffr\ten\nBonjour\tGood morning\nDis non\t"Say ""no"""\n',
    "lines.jsonl": '{"en": "Good morning", "fr": "Bonjour"}\n'
    '{"fr": "Dis non", "en": "Say \\"no\\""}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_a_column_per_language(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_text(FILES[name], "utf-8")
    assert list(read_lines(path, ["en", "fr"])) == LINES


def test_a_line_without_a_reference_is_named(tmp_path: Path):
    path = tmp_path / "lines.csv"
    path.write_text("en,fr\nGood morning,Bonjour\nThanks,\n", "utf-8")
    expected = f"{path}: line 2: no text in fr, found en, fr"
    with pytest.raises(ValueError, match=re.escape(expected)):
        list(read_lines(path, ["en", "fr"]))


def test_without_a_file_the_lines_are_the_phrasebooks():
    for line in draw_lines(["en", "fr"]):
        assert set(line) == {"en", "fr"}
        assert all(line.values())
    with pytest.raises(ValueError, match="cy: not in the phrasebook"):
        list(draw_lines(["en", "cy"]))
    assert "cy" not in LANGUAGES
