"""A file's name tells its format."""

from __future__ import annotations

import pytest

from documents.errors import UnknownFormat
from documents.formats import FORMATS, SUFFIXES, find_format


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_ending_has_one_format(suffix):
    found = [each for each in FORMATS if suffix in each.suffixes]
    assert found == [find_format(f"My file.{suffix[1:].upper()}")]


@pytest.mark.parametrize(
    ("name", "told"),
    [("a.exe", "in '.exe'"), ("notes", "without an ending"), (".po", "without")],
)
def test_an_unknown_ending_is_an_error_that_names_the_known_ones(name, told):
    with pytest.raises(UnknownFormat, match=rf"{told}.*\.txt.*\.csv"):
        find_format(name)
