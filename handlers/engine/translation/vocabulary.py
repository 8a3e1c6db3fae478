"""The pieces that translations into a language may consist of: fewer cost less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cache
from pathlib import Path

import regex

from contract.languages import SCRIPTS
from handlers.engine.translation.m2m100 import language_token

#: CTranslate2 reads it from the model's directory. Its first line, behind a tab, is the list
#: for all texts. Lists by source piece would follow, but CTranslate2 4.8 goes wrong when the
#: allowed pieces change from one batch to the next.
FILE = "vmap.txt"
_CONTROL = regex.compile(r"__\w+__|madeupword\d+")
_WORD_START = "▁"


def suits(listed: Set[str], pieces: Iterable[str], source: str) -> bool:
    """Whether a text can be translated with a list of pieces. If the text has pieces in a
    third script, such as a name, the model must be able to copy them."""
    own = _own(source)
    return all(piece in listed or own.fullmatch(piece) for piece in pieces)


def list_pieces(vocabulary: Iterable[str], languages: Sequence[str]) -> list[str]:
    """The pieces of a model's vocabulary for translations into these languages: those in
    their scripts or ASCII, all single characters, control tokens, and the language tokens."""
    allowed = regex.compile(_match(languages) + "*")
    pieces = [
        piece
        for piece in vocabulary
        if not _CONTROL.fullmatch(piece)
        and (len(piece.lstrip(_WORD_START)) < 2 or allowed.fullmatch(piece))
    ]
    return [*pieces, *map(language_token, languages)]


def write_list(directory: Path, pieces: Sequence[str]) -> None:
    """Writes the list for CTranslate2."""
    (directory / FILE).write_text(f"\t{' '.join(pieces)}\n", "utf-8")


def read_list(directory: Path) -> frozenset[str] | None:
    """The list in a model's directory; None if there is none."""
    path = directory / FILE
    if not path.exists():
        return None
    return frozenset(path.read_text("utf-8")[1:-1].split(" "))


@cache
def _own(language: str) -> regex.Pattern[str]:
    return regex.compile(_match([language]) + "*")


def _match(languages: Sequence[str]) -> str:
    """A character of these languages' scripts, of ASCII, or of no script."""
    scripts = sorted({script for language in languages for script in SCRIPTS[language]})
    own = "".join(rf"\p{{{script}}}" for script in scripts)
    return rf"[{own}\p{{Common}}\p{{Inherited}}A-Za-z]"
