"""Detects faulty translations without knowing the languages: empty or repetitive ones, ones of
implausible length or in the wrong script, and copies of the source. Length, words and script
of short texts are not checked, and repetitive texts may have repetitive translations.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache

import regex

from contract.languages import SCRIPTS


class Fault(Enum):
    """A fault of a translation. The value is the warning to its reader."""

    EMPTY = "The translation may be wrong: it is empty."
    LOOP = "The translation may be wrong: it repeats itself."
    RATIO = "The translation may be wrong: its length does not fit the text's."
    UNTRANSLATED = "The translation may be wrong: it is the untranslated text."
    SCRIPT = "The translation may be wrong: it is not in its language's script."


_FIRST_WORDS = {"Han": "CJK"}
#: Each language's scripts, named by the first word of their letters' Unicode names.
_ALPHABETS = {
    language: frozenset(
        _FIRST_WORDS.get(name, name.partition("_")[0].upper()) for name in scripts
    )
    for language, scripts in SCRIPTS.items()
}
#: An n-gram of this many characters that recurs at the same distance is a loop.
_GRAM = 6
#: The number of repeats that is no longer style: for more than a word, for a word, and for a
#: single letter, digit or sign, which people repeat for emphasis and in numbers and rules.
_LONG, _LONG_REPEATS = 20, 3
_WORD_REPEATS = 4
_SIGN_REPEATS = 20
#: The number of alphabetic letters to which one character of a script corresponds.
_WEIGHTS = {"CJK": 3.0, "HIRAGANA": 2.0, "KATAKANA": 2.0, "HANGUL": 2.0}
#: The heavier of a text and its translation weighs at most this many times the other, plus a
#: margin. Among 33,000 messages of GTK, GLib, coreutils and Vim in 90 languages, 9 weigh more,
#: because they explain terms that the English only names.
_RATIO = 2.5
_RATIO_MARGIN = 40
#: A translation is foreign if other scripts have this weight, and ten times its own script's.
_FOREIGN = 10
_FOREIGN_RATIO = 10
#: The number of characters whose script is cached: enough for a few languages.
_CHARACTERS = 8192
#: Addresses, codes and placeholders look the same in every language.
_CODE = re.compile(r"[\d/@_%<>=|\[\]]|\w\.\w")
PLACEHOLDER = re.compile(r"\{[^{}\s]*\}")
_NUMBER = re.compile(r"\d[\d.,:/-]*")
#: The scripts without spaces, whose characters count as words.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_CHUNK = regex.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}]*")
#: A copy has at least this share of its source's words, and its source of the copy's.
_COPIED = 0.85
#: Shorter texts can be the same in both languages: "Taxi", "in New York". Numbers count.
_COPY_WORDS = 4
#: Between these languages, so can many sentences with fewer words: 3% to 12% in software,
#: measured among M2M100's languages.
_SIBLING_WORDS = 12
_SIBLINGS = [
    frozenset(group.split())
    for group in """
    an ast es ext gl, bs hr sh sr sr-Latn, da nn no, gl pt, bjn id min ms, fa prs, ak tw,
    awa bho hi hne mag mai, lzh wuu yue zh zh-Hant, acm acq aeb ajp apc ar arq ars ary arz
    """.split(",")
]
#: Languages that capitalise all nouns, not only names.
_WITH_CAPITALS = ("de", "lb")


def find_fault(text: str, translated: str, source: str, target: str) -> Fault | None:
    """Return the most telling fault of `translated` as a translation of `text`, or None."""
    if _substance(translated) < _substance(text):
        return Fault.EMPTY
    repeats = _count_repeats(translated, _least_repeats)
    if repeats > 1 and repeats > 2 * _count_repeats(text, lambda unit: 2):
        return Fault.LOOP
    shorter, longer = sorted((weigh(text), weigh(translated)))
    if longer > _RATIO * shorter + _RATIO_MARGIN:
        return Fault.RATIO
    original, words = _list_words(text), _list_words(translated)
    is_foreign = _is_foreign(words, _ALPHABETS.get(target))
    if (
        source != target
        and _is_copy(original, words)
        and (is_foreign or _is_own(text, original, source, target))
    ):
        return Fault.UNTRANSLATED
    return Fault.SCRIPT if is_foreign else None


def _substance(text: str) -> int:
    """Return 2 for a text with a letter or digit, 1 with only signs, 0 for a blank one."""
    return any(map(str.isalnum, text)) + (not text.isspace() and bool(text))


def _count_repeats(text: str, least: Callable[[str], int]) -> int:
    """Count the consecutive occurrences of the most repeated unit; 1 if none occurs `least`
    times. In a loop of period p, each n-gram was last seen p characters before."""
    text = " ".join([*text.split(), ""])
    last_seen: dict[str, int] = {}
    most, period, length = 1, 0, 0
    for end in range(_GRAM, len(text) + 1):
        gram = text[end - _GRAM : end]
        distance = end - last_seen.get(gram, -end)
        last_seen[gram] = end
        length = length + 1 if distance == period else _GRAM
        period = distance
        repeats = 1 + length // period
        # Between whole repeats, neither their number nor the unit changes.
        is_new = length == _GRAM or length % period == 0
        if repeats > most and is_new and repeats >= least(text[end - period : end]):
            most = repeats
    return most


def _least_repeats(unit: str) -> int:
    if len(unit) == 1 or not any(map(str.isalpha, unit)):
        return _SIGN_REPEATS
    return _LONG_REPEATS if len(unit) >= _LONG else _WORD_REPEATS


def weigh(text: str) -> float:
    """The length of a text in letters of an alphabet."""
    return sum(map(_weight, text))


def _list_words(text: str) -> list[str]:
    """List the words except codes. "L'hôtel" is two, as in languages without apostrophes."""
    return [
        word
        for chunk in _CHUNK.findall(PLACEHOLDER.sub(" ", text))
        if not _CODE.search(chunk)
        for word in _WORD.findall(chunk)
    ]


def _is_copy(original: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a translation and its source share nearly all words."""
    same = Counter(map(_fold, original)) & Counter(map(_fold, words))
    return same.total() >= _COPIED * max(len(original), len(words), 1)


def _fold(word: str) -> str:
    """Fold capitals, and compose accents, which are separate characters in text from macOS."""
    return unicodedata.normalize("NFC", word.casefold())


def _is_own(text: str, words: Sequence[str], source: str, target: str) -> bool:
    """Whether a text with these words is too long to be the same in both languages, and
    consists neither of names nor, like a date or price, of numbers."""
    is_sibling = any({source, target} <= group for group in _SIBLINGS)
    numbers = len(_NUMBER.findall(PLACEHOLDER.sub("", text)))
    least = _SIBLING_WORDS if is_sibling else _COPY_WORDS
    if len(words) + numbers < least or len(words) <= 2 * numbers:
        return False
    names = sum(word[0].isupper() for word in words)
    return names < len(words) if source in _WITH_CAPITALS else 2 * names <= len(words)


def _is_foreign(words: Sequence[str], scripts: frozenset[str] | None) -> bool:
    """Whether hardly any letter is in `scripts`. Skips capitalised words, possibly names."""
    if not scripts:
        return False
    own = foreign = 0.0
    for letter in "".join(word for word in words if not word[0].isupper()):
        if _script(letter) in scripts:
            own += _weight(letter)
        else:
            foreign += _weight(letter)
    return foreign >= max(_FOREIGN, _FOREIGN_RATIO * own)


@lru_cache(_CHARACTERS)
def _weight(character: str) -> float:
    return _WEIGHTS.get(_script(character), 1.0) if character.isalpha() else 0.0


@lru_cache(_CHARACTERS)
def _script(letter: str) -> str:
    """The first word of a letter's Unicode name, such as `LATIN` or `CJK`."""
    return unicodedata.name(letter, "").replace("-", " ").partition(" ")[0]
