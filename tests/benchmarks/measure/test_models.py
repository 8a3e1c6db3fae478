"""The lines of text on which checkpoints are compared."""

import re
from pathlib import Path

import pytest

from benchmarks.measure.models import draw_lines, read_lines
from models.phrasebook_recipe.items import LANGUAGES

LINES = [{"en": "Good morning", "fr": "Bonjour"}, {"en": 'Say "no"', "fr": "Dis non"}]


def test_a_file_has_a_column_per_language(tmp_path: Path):
    path = tmp_path / "lines.csv"
    path.write_text('fr,en\nBonjour,Good morning\nDis non,"Say ""no"""\n', "utf-8")
    assert list(read_lines(path, ["en", "fr"])) == LINES


def test_a_line_without_a_reference_is_named(tmp_path: Path):
    path = tmp_path / "lines.csv"
    path.write_text("en,fr\nGood morning,Bonjour\nThanks,\n", "utf-8")
    expected = f"{path}: line 3: no text in fr"
    with pytest.raises(ValueError, match=re.escape(expected)):
        list(read_lines(path, ["en", "fr"]))


def test_without_a_file_the_lines_are_the_phrasebooks():
    for line in draw_lines(["en", "fr"]):
        assert set(line) == {"en", "fr"}
        assert all(line.values())
    with pytest.raises(ValueError, match="cy: not in the phrasebook"):
        list(draw_lines(["en", "cy"]))
    assert "cy" not in LANGUAGES
