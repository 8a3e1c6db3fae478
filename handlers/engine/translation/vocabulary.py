"""The output vocabulary: the pieces that translations into a language may consist of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cache
from pathlib import Path

import regex

from contract.languages import SCRIPTS
from handlers.engine.translation.tokenizer import WORD_START

#: The pieces that translations into a language may consist of: fewer cost less. CTranslate2
#: reads them from the model's directory. The first line, behind a tab, is the list for all
#: texts. Lists by source piece would follow, but CTranslate2 4.8 goes wrong when the allowed
#: pieces change from one batch to the next.
LIST_FILE = "vmap.txt"
#: The languages of all families, and unused rows.
_NO_PIECE = regex.compile(
    r"__\w+__|[a-z]{3}_[A-Z][a-z]{3}|>>\w+<<|<2\w+>|<extra_id_\d+>|madeupword\d+"
)


def suits(listed: Set[str], pieces: Iterable[str], source: str) -> bool:
    """Whether a text can be translated with a list of pieces. If the text has pieces in a
    third script, such as a name, the model must be able to copy them."""
    own = _match((source,))
    return all(piece in listed or own.fullmatch(piece) for piece in pieces)


def list_pieces(vocabulary: Iterable[str], languages: Sequence[str]) -> list[str]:
    """The pieces of a model's vocabulary for translations into these languages: those in
    their scripts or ASCII, all single characters, and control tokens."""
    allowed = _match(tuple(languages))
    return [
        piece
        for piece in vocabulary
        if not _NO_PIECE.fullmatch(piece)
        and (len(piece.lstrip(WORD_START)) < 2 or allowed.fullmatch(piece))
    ]


def write_list(directory: Path, pieces: Sequence[str]) -> None:
    """Writes the list for CTranslate2."""
    (directory / LIST_FILE).write_text(f"\t{' '.join(pieces)}\n", "utf-8")


def read_list(directory: Path) -> frozenset[str] | None:
    """The list in a model's directory; None if there is none."""
    path = directory / LIST_FILE
    if not path.exists():
        return None
    return frozenset(path.read_text("utf-8")[1:-1].split(" "))


@cache
def _match(languages: tuple[str, ...]) -> regex.Pattern[str]:
    """Match pieces in these languages' scripts, in ASCII, or in no script."""
    scripts = sorted({script for language in languages for script in SCRIPTS[language]})
    own = "".join(rf"\p{{{script}}}" for script in scripts)
    return regex.compile(rf"[{own}\p{{Common}}\p{{Inherited}}A-Za-z]*")
