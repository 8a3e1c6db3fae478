"""Entries of dictionaries in TSV and CSV, and refused ones."""

import pytest

from tests.text.cases import list_rows
from text.entries import read_csv, read_pairs, read_stored, read_tsv, write_tsv
from text.errors import EntriesError

HELLO = [("hello", "hallo"), ("bye", "tschüss")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("hello\thallo\nbye\ttschüss", id="plain"),
        pytest.param("\ufeffhello\thallo\r\nbye\ttschüss\r\n", id="from Windows"),
        pytest.param(" hello \t hallo\n\n \nbye\ttschüss\n", id="blank lines"),
    ],
)
def test_tsv_has_a_term_a_tab_and_a_translation(text):
    assert read_tsv(text) == HELLO
    assert len(read_tsv("US\tUSA\nus\tuns")) == 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("hello,hallo\nbye,tschüss", id="plain"),
        pytest.param('\ufeff"hello","hallo"\r\n\r\nbye , tschüss\r\n', id="quoted"),
        pytest.param(
            "hello,hallo,en,de\nbye,tschüss,EN-GB,de\nbye,salut,en,fr", id="languages"
        ),
    ],
)
def test_csv_has_two_columns_or_four(text):
    assert read_csv(text, "en", "de") == HELLO


def test_a_comma_and_a_quotation_mark_are_quoted_in_csv():
    text = '"a, b","say ""c"""'
    assert read_csv(text, "en", "de") == [("a, b", 'say "c"')]


ONE = "the index 1 (starting at position 4)"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *list_rows("faults of TSV"),
        ("a\tb\n\ud800\tc", f"Key with {ONE} has half of a surrogate pair"),
        ("a\tb\n" + 513 * "ü" + "\tc", f"Key with {ONE} is longer than 1024 bytes"),
    ],
)
def test_what_is_wrong_with_tsv_is_said_with_its_place(text, fault):
    with pytest.raises(EntriesError) as refused:
        read_tsv(text)
    assert fault in str(refused.value)


@pytest.mark.parametrize(("text", "fault"), list_rows("faults of CSV"))
def test_what_is_wrong_with_csv_is_said_with_its_place(text, fault):
    with pytest.raises(EntriesError) as refused:
        read_csv(text, "en", "de")
    assert fault in str(refused.value)


def test_entries_are_stored_as_they_were_read():
    entries = read_pairs([*HELLO, ('a "b"', "c, d")])
    assert list(read_stored(write_tsv(entries))) == entries
