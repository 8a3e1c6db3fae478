"""Reads a dictionary's entries from TSV, CSV or pairs, as DeepL does; stored, they are TSV."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from contract.languages import normalize_variant
from text.errors import EntriesError

#: The maximum length in UTF-8 bytes of a term, and of a glossary's name.
MOST_TERM_BYTES = 1024
#: Characters that neither may contain.
CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")
#: The columns of CSV: the two terms, and optionally the two languages.
_TERMS, _TERMS_AND_LANGUAGES = 2, 4

Entry = tuple[str, str]


class Place(NamedTuple):
    """An entry's number and first character, both counted from 0, and its line, from 1."""

    number: int
    position: int
    line: int = 0

    def __str__(self) -> str:
        return f"the index {self.number} (starting at position {self.position})"


Placed = tuple[Place, str, str]


def read_tsv(text: str) -> list[Entry]:
    """Read lines with a term, a tab and its translation. Raises EntriesError."""
    return _check_entries(_split_lines(text.removeprefix("\ufeff")))


def read_csv(text: str, source: str, target: str) -> list[Entry]:
    """Read columns with terms, translations and optionally the languages of both. Lines in
    other languages are skipped. Raises EntriesError."""
    return _check_entries(_split_columns(text.removeprefix("\ufeff"), (source, target)))


def read_pairs(pairs: Iterable[Entry]) -> list[Entry]:
    """Read pairs of a term and its translation. Raises EntriesError."""
    return _check_entries(
        (Place(index, index), source, target)
        for index, (source, target) in enumerate(pairs)
    )


def write_tsv(entries: Iterable[Entry]) -> bytes:
    """Return entries in their stored form."""
    return "\n".join(f"{source}\t{target}" for source, target in entries).encode()


def read_stored(content: bytes) -> Iterator[Entry]:
    """Yield the entries that `write_tsv` has written."""
    for line in io.BytesIO(content):
        source, _, target = line.decode().removesuffix("\n").partition("\t")
        yield source, target


def _split_lines(text: str) -> Iterator[Placed]:
    start = index = 0
    for row, line in enumerate(io.StringIO(text, newline=""), 1):
        place = Place(index, start, row)
        start += len(line)
        if not line.strip():
            continue
        index += 1
        source, *rest = line.split("\t")
        if not rest:
            raise EntriesError(f"Key with {place} misses tab separator")
        if len(rest) > 1:
            raise EntriesError(f"Key with {place} has more than one tab separator")
        yield place, source, rest[0]


def _split_columns(text: str, languages: tuple[str, str]) -> Iterator[Placed]:
    index = 0
    file = io.StringIO(text, newline="")
    lines = csv.reader(file, strict=True)
    while True:
        place = Place(index, file.tell(), lines.line_num + 1)
        try:
            row = next(lines, None)
        except csv.Error as error:
            raise EntriesError(f"Key with {place} is not CSV: {error}") from error
        if row is None:
            return
        if not any(cell.strip() for cell in row):
            continue
        index += 1
        if len(row) not in (_TERMS, _TERMS_AND_LANGUAGES):
            raise EntriesError(
                f"Key with {place} has {len(row)} columns, expected 2, or 4 with languages"
            )
        if len(row) == _TERMS or languages == tuple(map(normalize_variant, row[2:])):
            yield place, row[0], row[1]


def _check_entries(placed: Iterable[Placed]) -> list[Entry]:
    """Return the entries without the white space around their terms."""
    known: dict[str, Place] = {}
    entries = []
    for place, *given in placed:
        source, target = (term.strip() for term in given)
        _check_term(source, f"Key with {place}")
        _check_term(target, f"Value for the key with {place}")
        first = known.setdefault(unicodedata.normalize("NFC", source), place)
        if first is not place:
            lines = f" in lines {first.line} and {place.line}" if place.line else ""
            raise EntriesError(
                f"Key with {place} duplicates key with {first}: “{source[:40]}”{lines}"
            )
        entries.append((source, target))
    if not entries:
        raise EntriesError("There are no entries")
    return entries


def _check_term(term: str, name: str) -> None:
    if not term:
        raise EntriesError(f"{name} is empty")
    if CONTROLS.search(term):
        raise EntriesError(f"{name} has a control character")
    if _SURROGATES.search(term):
        raise EntriesError(f"{name} has half of a surrogate pair")
    if len(term.encode()) > MOST_TERM_BYTES:
        raise EntriesError(f"{name} is longer than {MOST_TERM_BYTES} bytes")
