"""Converts a text to another written form of its language: Chinese to the characters and words
of Taiwan or Hong Kong, or to simplified characters, with OpenCC; Serbian to Latin or Cyrillic.
"""

import re
import unicodedata
from functools import cache

from opencc import OpenCC

#: OpenCC's conversions.
_CHINESE = {"zh": "t2s", "zh-Hant": "s2twp", "zh-HK": "s2hk"}
_CYRILLIC = "абвгдђежзијклљмнњопрстћуфхцчџш"
_LATIN = "a b v g d đ e ž z i j k l lj m n nj o p r s t ć u f h c č dž š".split()
_TO_LATIN = dict(zip(_CYRILLIC, _LATIN, strict=True))
_TO_LATIN |= {one.upper(): two.capitalize() for one, two in _TO_LATIN.items()}
_TO_CYRILLIC = {two: one for one, two in _TO_LATIN.items()}
_TO_CYRILLIC |= {two.upper(): one for one, two in _TO_LATIN.items() if one.isupper()}
_CYRILLIC_LETTER = re.compile("[\u0400-\u04ff]")
_CAPITAL, _SMALL = "[А-ЯЂЈ-ЋЏ]", "[а-яђј-ћџ]"
#: Љ, Њ and Џ among capitals.
_RAISED = re.compile(f"[ЉЊЏ](?:(?={_CAPITAL})|(?<={_CAPITAL}.)(?!{_SMALL}))")
_LATIN_WORD = re.compile(r"[^\W\d_]+")
_LATIN_LETTER = re.compile("D[Žž]|L[Jj]|N[Jj]|dž|lj|nj|[A-PR-VZa-pr-vzĐđŽžĆćČčŠš]")
#: Words that are not Serbian, and Roman numerals.
_FOREIGN = re.compile(r"(?i:.*[qwxy])|[IVXLCDM]{2,}$")
#: Two letters that belong to different parts of a word: "injekcija", "nadživeti".
_APART = re.compile(
    r"""(?i) (?<=^in)(?=je[kc]|jic) | (?<=^kon)(?=jug|junk|jekt) | (?<=^van)(?=jezi)
    | (?<=^tan)(?=jug) | (?<=^nad)(?=ž(?:iv|nj|et)) | (?<=^od)(?=ž(?:iv|val|vak|al))
    | (?<=^pod)(?=ž(?:an|up)) | (?<=^pred)(?=živ)""",
    re.VERBOSE,
)


def convert(text: str, variant: str) -> str:
    """Write a text in the form of its variant, or Chinese in that of `zh`. A text that already
    has this form stays the same, as does one in another language."""
    if variant in _CHINESE:
        converter = _load(_CHINESE[variant])
        # OpenCC would stop at a null character.
        return "\0".join(map(converter.convert, text.split("\0")))
    if variant == "sr-Latn":
        raised = _RAISED.sub(lambda match: _TO_LATIN[match[0]].upper(), text)
        return "".join(_TO_LATIN.get(character, character) for character in raised)
    # Latin words among Cyrillic ones are names.
    if variant == "sr-Cyrl" and not _CYRILLIC_LETTER.search(text):
        # macOS writes č as two characters.
        composed = unicodedata.normalize("NFC", text)
        return _LATIN_WORD.sub(lambda match: _write_cyrillic(match[0]), composed)
    return text


@cache
def _load(configuration: str) -> OpenCC:
    """Load a converter. The tables of `s2twp` need 44 MB of memory."""
    return OpenCC(configuration)


def _write_cyrillic(word: str) -> str:
    if _FOREIGN.match(word):
        return word
    return "".join(
        _LATIN_LETTER.sub(lambda match: _TO_CYRILLIC[match[0]], part)
        for part in _APART.split(word)
    )
