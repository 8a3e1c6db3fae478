"""Final marks and capitals of sentences by language. `Thank you!` ends in `！` in Chinese and
in ` !` in French, begins with `¡` in Spanish, and a text without a final mark stays without
one. Models are trained on sentences, so `HELLO, HOW ARE YOU?` is translated as `Hello, how are
you?`, and its translation is written in capitals.
"""

import re
import unicodedata
from collections.abc import Mapping
from enum import Enum, auto

import regex

from contract.languages import SCRIPTS
from text.segmentation import ABBREVIATIONS, WITH_ORDINALS, is_abbreviated


class Mark(Enum):
    """The meaning of the marks at the end of a sentence."""

    NONE = auto()
    STOP = auto()
    EXCLAMATION = auto()
    QUESTION = auto()
    #: Both, as in `?!`.
    INTERROBANG = auto()
    ELLIPSIS = auto()
    #: Any other end, such as a colon or a mark inside quotation marks.
    OTHER = auto()


def _list_written(*scripts: str) -> frozenset[str]:
    """List the languages that are mostly written in one of these scripts."""
    return frozenset(tag for tag, names in SCRIPTS.items() if names[0] in scripts)


_STOPS = ".。．｡।۔"
_EXCLAMATIONS = "!！"
_QUESTIONS = "?？؟"
_ELLIPSES = "…⋯"
_GREEK_QUESTIONS = ";\u037e"
#: Each mark in plain form.
_PLAIN = {
    **dict.fromkeys(_STOPS, "."),
    **dict.fromkeys(_EXCLAMATIONS, "!"),
    **dict.fromkeys(_QUESTIONS + _GREEK_QUESTIONS, "?"),
    **dict.fromkeys(_ELLIPSES, "…"),
}
#: Languages that write sentences without final marks, or put the marks inside words.
_UNMARKED = _list_written(
    "Armenian", "Ethiopic", "Khmer", "Lao", "Myanmar", "Thai", "Tibetan"
)
_WIDE = _list_written("Han")
_FORMS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(_WIDE, {".": "。", "!": "！", "?": "？"}),
    **dict.fromkeys(_list_written("Arabic"), {"?": "؟"}),
    **dict.fromkeys("ks pnb ps sd skr ur".split(), {".": "۔", "?": "؟"}),
    **dict.fromkeys(
        "as awa bho bn brx doi hi hne ks-Deva mag mai ne or pa sa".split(), {".": "।"}
    ),
    "el": {"?": ";"},
}
#: M2M100 reads and writes every space as a plain one.
_SPACED = dict.fromkeys(("br", "fr"), " ")
_OPENERS = dict.fromkeys(("ast", "es"), {"?": "¿", "!": "¡"})
#: Japanese questions may end in this, but so may other sentences.
_KA = "か"
#: Shorter words before a full stop may be abbreviated, but not the syllables of Vietnamese.
_SHORT = 3
_SYLLABIC = frozenset(("vi",))
#: `p.m`, but not `81.51입니다`.
_INNER_STOP = re.compile(r"[^\W\d_]\.")
#: A number too large for an ordinal in a date.
_LARGE_NUMBER = re.compile(r"(?:3[2-9]|[4-9]\d|\d{3})$")
_INNER_END = re.compile(r"[.!?…]\s+")
#: Georgian also has capitals, but few fonts include them.
_CASED = frozenset(("Armenian", "Cyrillic", "Greek", "Latin"))
#: A letter that is not a capital. Some small ones are used among capitals, as in `Nº`.
_NO_CAPITAL = regex.compile(r"[[\p{Ll}\p{Lt}\p{Lo}]--[ßªº]]", regex.V1)
_LETTER = regex.compile(r"\p{L}")
#: `U.S.A.` is not a word in capitals.
_WORD = regex.compile(r"\p{L}{2}")
_ENGLISH_I = re.compile(r"\bi\b")
#: Languages with a dotted and a dotless i, and their letters.
TURKISH = frozenset("az crh-Latn gag tr tt-Latn".split())
TURKISH_SMALL = str.maketrans({"I": "ı", "İ": "i"})
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
    """Return the number of words of a text in capitals, and 0 for any other text."""
    if _NO_CAPITAL.search(text) or not is_cased(language) or not _WORD.search(text):
        return 0
    return sum(_LETTER.search(word) is not None for word in text.split())


def to_sentence_case(text: str, language: str) -> str:
    """Write a sentence in capitals in small letters, with a capital at its start."""
    letter = _LETTER.search(text)
    if not letter:
        return text
    dotted = text.translate(TURKISH_SMALL) if language in TURKISH else text
    small = dotted.lower()
    written = text[: letter.end()] + small[len(dotted[: letter.end()].lower()) :]
    return _ENGLISH_I.sub("I", written) if language == "en" else written


def to_capitals(text: str, language: str) -> str:
    """Write text in capitals by the language's rules; unchanged if the language has none."""
    if not is_cased(language):
        return text
    if language in TURKISH:
        text = text.translate(_TURKISH_CAPITAL)
    elif language == "hy":
        text = text.replace("և", "եվ")
    elif language == "el":
        text = unicodedata.normalize("NFD", text)
        text = _GREEK_HIATUS.sub(rf"\1\2{_DIAERESIS}", text)
        text = unicodedata.normalize("NFC", _GREEK_ACCENT.sub(r"\1\2", text))
    return text.upper()


def mend(text: str, translated: str, source: str, target: str) -> str:
    """Return `translated` with the final marks of `text` in the target's form. Nothing changes
    unless it is certain that a mark is lost or invented."""
    if text[-1:] == translated[-1:] not in _STOPS:
        return translated
    if not translated or source in _UNMARKED or target in _UNMARKED:
        return translated
    body, given = _split(text, source)
    mended, found = _split(translated, target)
    is_ka = target == "ja" and mended.endswith(_KA)
    wanted = _read_mark(body, given, source)
    if wanted is Mark.STOP and source == "ja" and body.endswith(_KA):
        return translated  # it may be a question
    if not _is_lost(wanted, _read_mark(mended, found, target), is_ka=is_ka):
        return translated
    if found:
        mended = _close(mended, found, target)
    return _end(mended, given, target) if given else mended


def _is_lost(wanted: Mark, found: Mark, *, is_ka: bool) -> bool:
    """Whether a translation that ends in `found` has lost or invented a mark. A question may
    become a request and a request a question, so these two are never exchanged."""
    if Mark.OTHER in (wanted, found) or wanted is found:
        return False
    if wanted is Mark.NONE:
        return found is not Mark.ELLIPSIS
    if found is Mark.NONE:
        return True
    if wanted is Mark.STOP:
        return found is Mark.EXCLAMATION
    return found is Mark.STOP and (wanted is not Mark.QUESTION or is_ka)


def _split(text: str, language: str) -> tuple[str, str]:
    """Split a sentence from its final marks."""
    text = text.rstrip()
    end = len(text)
    while end and _is_mark(text[end - 1], language):
        end -= 1
    return text[:end].rstrip(), text[end:]


def _is_mark(character: str, language: str) -> bool:
    is_greek = language == "el"
    return character in _PLAIN and (is_greek or character not in _GREEK_QUESTIONS)


def _read_mark(body: str, marks: str, language: str) -> Mark:
    if not body:
        return Mark.OTHER
    if not marks:
        return _read_end(body, language)
    plain = {_PLAIN[mark] for mark in marks}
    if "?" in plain:
        return Mark.INTERROBANG if "!" in plain else Mark.QUESTION
    if "!" in plain:
        return Mark.EXCLAMATION
    if len(marks) > 1 or "…" in plain:
        return Mark.ELLIPSIS
    return Mark.STOP if _is_stop(body, marks, language) else Mark.OTHER


def _read_end(body: str, language: str) -> Mark:
    """Return NONE after a word, and after a bracket or quotation mark without a mark before."""
    end = len(body)
    while end and (_is_closing(body[end - 1]) or body[end - 1].isspace()):
        end -= 1
    if not end:
        return Mark.OTHER
    last = body[end - 1]
    if end < len(body) and _is_mark(last, language):
        return Mark.OTHER
    # A mark may be before an invisible sign, such as one that sets the direction.
    is_bare = last in "}%" or unicodedata.category(last)[0] not in "CP"
    return Mark.NONE if is_bare else Mark.OTHER


def _is_closing(character: str) -> bool:
    """Whether a character may close a quotation or bracket; some languages use `“` or `«`."""
    is_paired = unicodedata.category(character) in ("Pe", "Pf", "Pi")
    return (is_paired or character in "\"'") and character != "}"


def _is_stop(body: str, stop: str, language: str) -> bool:
    """Whether a full stop ends a sentence, rather than an abbreviation or ordinal number."""
    if stop != ".":
        return True
    (word,) = body.rsplit(None, 1)[-1:]
    if word[-1].isdigit():
        return language not in WITH_ORDINALS or _LARGE_NUMBER.search(word) is not None
    if not word[-1].isalpha():
        return True
    can_be_short = is_cased(language) and language not in _SYLLABIC
    is_short = can_be_short and len(word) < _SHORT
    is_label = word.lower() in ABBREVIATIONS["labels"]
    is_known = is_label or is_abbreviated(f"{word}.", language)
    return not (is_short or is_known or _INNER_STOP.search(word))


def _close(body: str, marks: str, language: str) -> str:
    """Remove the opening marks, such as `¿`, of the final marks that the sentence has lost."""
    for mark, opener in _OPENERS.get(language, {}).items():
        place = body.rfind(opener)
        if mark in marks and place > body.rfind(mark):
            body = body[:place] + body[place + 1 :]
    return body


def _end(body: str, marks: str, language: str) -> str:
    """Return the sentence with a text's final marks in the language's form."""
    plain = "".join(_PLAIN[mark] for mark in marks)
    if set(plain) <= {".", "…"} and plain != ".":
        return body + ("……" if language in _WIDE else "…" if "…" in plain else plain)
    for mark in dict.fromkeys(plain):
        opener = _OPENERS.get(language, {}).get(mark)
        if opener and body.rfind(opener) <= body.rfind(mark):
            starts = (match.end() for match in _INNER_END.finditer(body))
            place = max(starts, default=0)  # of the last sentence
            body = body[:place] + opener + body[place:]
    forms = _FORMS.get(language, {})
    space = _SPACED.get(language, "") if plain != "." else ""
    return body + space + "".join(forms.get(mark, mark) for mark in plain)
