"""Texts in capitals: models know sentences, so `HELLO, HOW ARE YOU?` is translated as
`Hello, how are you?`, and its translation is written in capitals.
"""

from __future__ import annotations

import re
import unicodedata

import regex

from contract.languages import SCRIPTS

#: Georgian has capitals as well, but few fonts do.
_CASED = frozenset(("Armenian", "Cyrillic", "Greek", "Latin"))
#: A letter that is no capital. Some small ones stand among capitals, as in `Nº`.
_NO_CAPITAL = regex.compile(r"[[\p{Ll}\p{Lt}\p{Lo}]--[ßªº]]", regex.V1)
_LETTER = regex.compile(r"\p{L}")
#: `U.S.A.` is no word in capitals.
_WORD = regex.compile(r"\p{L}{2}")
_ENGLISH_I = re.compile(r"\bi\b")
_TURKISH = frozenset(("az", "tr"))
_TURKISH_SMALL = str.maketrans({"I": "ı", "İ": "i"})
_TURKISH_CAPITAL = str.maketrans({"i": "İ", "ı": "I"})
_ACUTE, _DIAERESIS = "\u0301", "\u0308"
#: In Greek capitals only the word "Ή" (or) keeps its accent.
_GREEK_ACCENT = re.compile(
    rf"(?<!\w)([ηΗ]{_ACUTE})(?!\w)|([\u0370-\u03ff]{_DIAERESIS}?){_ACUTE}"
)
#: Two vowels that without the first one's accent would be read as one: "μάιος", "ΜΑΪΟΣ".
_GREEK_HIATUS = re.compile(rf"([αεουΑΕΟΥ]{_ACUTE})([ιυΙΥ])(?!{_DIAERESIS})")


def is_cased(language: str) -> bool:
    """Whether the language is written in capitals and small letters."""
    return not _CASED.isdisjoint(SCRIPTS.get(language, ()))


def count_words(text: str, language: str) -> int:
    """The number of words of a text in capitals, and 0 for any other text."""
    if _NO_CAPITAL.search(text) or not is_cased(language) or not _WORD.search(text):
        return 0
    return sum(_LETTER.search(word) is not None for word in text.split())


def to_sentence_case(text: str, language: str) -> str:
    """A sentence in capitals as it is written otherwise: the first letter is a capital."""
    letter = _LETTER.search(text)
    if not letter:
        return text
    dotted = text.translate(_TURKISH_SMALL) if language in _TURKISH else text
    small = dotted.lower()
    rest = small[len(dotted[: letter.end()].lower()) :]
    if language == "en":
        rest = _ENGLISH_I.sub("I", rest)
    return text[: letter.end()] + rest


def to_capitals(text: str, language: str) -> str:
    """The text in capitals by the language's rules. Without capitals it stays as it is."""
    if not is_cased(language):
        return text
    if language in _TURKISH:
        text = text.translate(_TURKISH_CAPITAL)
    elif language == "hy":
        text = text.replace("և", "եվ")
    elif language == "el":
        text = unicodedata.normalize("NFD", text)
        text = _GREEK_HIATUS.sub(rf"\1\2{_DIAERESIS}", text)
        text = unicodedata.normalize("NFC", _GREEK_ACCENT.sub(r"\1\2", text))
    return text.upper()
