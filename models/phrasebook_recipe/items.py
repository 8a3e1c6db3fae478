"""A training item: one meaning, written in any of the 14 languages."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

LANGUAGES = tuple("en ko zh es fr ru id ja vi de it hi ar pt".split())

_SPACES = re.compile(r"[\u00a0\u2009\u202f]")
_INVISIBLE = re.compile(r"[\u061c\u200e\u200f]")
_HELD_OUT_SHARE = 10


@dataclass(frozen=True)
class Item:
    """One meaning. The first of a language's `wordings` is the translation, the others
    are accepted inputs. An item without a `key` is always trained on."""

    category: str
    key: str | None
    wordings: Callable[[str], tuple[str, ...]]

    def text(self, language: str) -> str:
        return self.wordings(language)[0]

    @property
    def is_held_out(self) -> bool:
        """Whether this item is kept from training, for one key in ten."""
        if self.key is None:
            return False
        digest = hashlib.sha256(f"{self.category}:{self.key}".encode()).digest()
        return digest[0] % _HELD_OUT_SHARE == 0


def clean(text: str) -> str:
    """NFC, ordinary spaces, no direction marks: CLDR uses them unevenly."""
    text = _INVISIBLE.sub("", _SPACES.sub(" ", text))
    return unicodedata.normalize("NFC", text).strip()
