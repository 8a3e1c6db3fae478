"""Identifies the language of a text, or none if there is too little evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter

import regex
from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

from contract.languages import SCRIPTS

#: ISO 639's code for an unidentified language.
UNDETERMINED = "und"
#: Guesses below are too often wrong: with 4,192 phrasebook sentences in 14 languages, 92 % of
#: the guesses between 0.5 and 0.7 were right, and 80 % of those below.
MIN_CONFIDENCE = 0.5

#: Words that people type first; they are too short for statistics.
_GREETINGS = {
    "de": "hallo danke ja nein tschüss bitte",
    "en": "hello hi hey bye goodbye thanks yes please sorry welcome",
    "es": "hola gracias adiós sí",
    "fr": "bonjour merci salut oui bonsoir",
    "id": "halo makasih",
    "it": "ciao grazie buongiorno prego",
    "pt": "olá oi obrigado obrigada tchau",
}
_BY_GREETING = {
    word: language for language, words in _GREETINGS.items() for word in words.split()
}
#: Koreans also write Chinese characters.
_READ_AS_WELL = {"ko": ("Han",)}
_MOST_COMMON = ("Latin",)
#: Characters to look at. More take time and tell nothing new.
_ENOUGH = 2000
#: The work that each text takes beside its characters, in characters.
_TEXT_CHARACTERS = 150
_LETTER = regex.compile(r"\p{L}")
_ADDRESS = regex.compile(r"(?<!\S)\S(?:(?!://|@)\S)*+(?:://|@)\S++")


@dataclass(frozen=True)
class Guess:
    """A language and how sure it is, from 0 to 1."""

    language: str
    confidence: float
    #: The likeliest language where it is undetermined.
    likeliest: str = field(default="", compare=False)


#: Languages and their shares, in any order.
Rank = Callable[[str], Iterable[tuple[str, float]]]


class Identifier:
    """A library's guesses, restricted to the given languages that use the text's script."""

    def __init__(self, languages: Iterable[str], *, library: str = "py3langid") -> None:
        self._languages = frozenset(languages)
        self._rank = LIBRARIES[library](self._languages)

    def rank(self, text: str) -> list[Guess]:
        """The languages that `text` may be in, likeliest first. Empty if it has no letters."""
        text = _ADDRESS.sub(" ", text[:_ENOUGH])
        letters = len(_LETTER.findall(text))
        if not letters:
            return []
        greeted = _BY_GREETING.get(text.strip(" .!?¡¿,").lower())
        if greeted in self._languages:
            return [Guess(greeted, 1.0)]
        ranked = sorted(self._rank(text), key=itemgetter(1), reverse=True)
        # Japanese text has Chinese letters too, but Chinese text has no kana.
        is_written_in = {
            scripts: len(_letters_of(scripts).findall(text)) * 2 > letters
            for scripts in {_scripts_of(language) for language, _ in ranked}
        }
        possible = [
            Guess(language, float(share))
            for language, share in ranked
            if is_written_in[_scripts_of(language)]
        ]
        total = sum(guess.confidence for guess in possible)
        if not total:
            return []
        return [Guess(g.language, round(g.confidence / total, 4)) for g in possible]

    def identify(self, text: str) -> Guess:
        """The likeliest language, or `und` if there is too little evidence."""
        best, *_ = self.rank(text) or [Guess("", 0.0)]
        if best.confidence < MIN_CONFIDENCE:
            return Guess(UNDETERMINED, best.confidence, best.language)
        return best


def weigh_identification(text: str) -> int:
    """The work of identifying the language of a text, in characters."""
    return _TEXT_CHARACTERS + min(len(text), _ENOUGH)


@cache
def load_model() -> LanguageIdentifier:
    """py3langid's model for all languages. It takes a second or two to load, and its 70 MB
    are shared with processes that are forked afterwards."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def _rank_with_py3langid(languages: frozenset[str]) -> Rank:
    """The model for some languages, which takes milliseconds to make."""
    model = copy(load_model())
    model.set_languages(sorted(languages & set(model.labels)))
    return model.rank  # type: ignore[no-any-return]


def _rank_with_lingua(languages: frozenset[str]) -> Rank:
    from lingua import Language, LanguageDetectorBuilder

    codes = {known: known.iso_code_639_1.name.lower() for known in Language.all()}
    served = [known for known, code in codes.items() if code in languages]
    detector = LanguageDetectorBuilder.from_languages(*served).build()

    def rank(text: str) -> Iterable[tuple[str, float]]:
        for found in detector.compute_language_confidence_values(text):
            yield codes[found.language], found.value

    return rank


#: The libraries that can rank languages. lingua is an optional extra.
LIBRARIES: Mapping[str, Callable[[frozenset[str]], Rank]] = {
    "py3langid": _rank_with_py3langid,
    "lingua": _rank_with_lingua,
}


@cache
def _scripts_of(language: str) -> tuple[str, ...]:
    return (*SCRIPTS.get(language, _MOST_COMMON), *_READ_AS_WELL.get(language, ()))


@cache
def _letters_of(scripts: tuple[str, ...]) -> regex.Pattern[str]:
    return regex.compile(
        "[" + "".join(rf"\p{{Script={name}}}" for name in scripts) + "]"
    )
