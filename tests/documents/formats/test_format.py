"""A file's name tells its format, and a value is language or it is not."""

from __future__ import annotations

import pytest

from documents.errors import UnknownFormat
from documents.formats import FORMATS, SUFFIXES, find_format
from documents.formats.format import is_prose
from tests.documents.formats.packing import find_group


@pytest.mark.parametrize("text", find_group("values")["prose"])
def test_what_people_read_is_prose(text):
    assert is_prose(text)


@pytest.mark.parametrize("text", find_group("values")["codes"])
def test_what_programs_read_is_not(text):
    assert not is_prose(text)


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
