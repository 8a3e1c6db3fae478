"""Identifies the language of a text, or none if there is too little evidence."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from copy import copy
from dataclasses import dataclass, field
from functools import cache

import regex
from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

from contract.languages import SCRIPTS, find_tag
from text.placeholders import fill, find_protected
from text.spelling import load_spelling, split_words

#: ISO 639's code for an unidentified language.
UNDETERMINED = "und"
#: Guesses below this are wrong too often: with 4,192 phrasebook sentences in 14 languages, 92 %
#: of the guesses between 0.5 and 0.7 were right, and 80 % of those below.
MIN_CONFIDENCE = 0.5

#: Texts within these limits are also identified by spelling: of 2,036 held-out texts in 14
#: languages, this identifies 92 %, statistics alone 80 %.
_FEW_WORDS = 3
_FEW_CHARACTERS = 60
#: The weight of statistics relative to that of spelling.
_STATISTICS = 0.6
_LEAST_SHARE = 1e-6
#: The log probability of a text in a language that is not a candidate, relative to one that is.
#: With -3, 2 % fewer texts are identified, and 8 % more of those in other languages are `und`.
_UNEXPECTED = -5.0

#: Koreans also write Chinese characters.
_READ_AS_WELL = {"ko": ("Han",)}
_MOST_COMMON = ("Latin",)
#: The number of characters to analyse. More need time without improving the results.
_ENOUGH = 2000
#: The work that each text requires in addition to its characters, in characters.
_TEXT_CHARACTERS = 150
#: The Japanese sign for a long vowel is a letter of no script.
_LETTER = regex.compile(r"(?!\p{Script=Common})\p{L}")
_LATIN_WORD = regex.compile(r"\p{Latin}++")
#: The start of a word in another script; a lone Greek letter is a sign, as in `R (Ω)`.
_OTHER_WORD = regex.compile(r"\p{Greek}{2}|(?!\p{Greek}|\p{Script=Common})\p{L}")


@dataclass(frozen=True)
class Guess:
    """A language and the confidence in it, from 0 to 1."""

    language: str
    confidence: float
    #: The likeliest language if it is undetermined.
    likeliest: str = field(default="", compare=False)


#: Languages and their shares, in any order.
Shares = Iterable[tuple[str, float]]


@dataclass(frozen=True)
class Profiles:
    """The languages of a library, and its function to rank them."""

    languages: Set[str]
    rank: Callable[[str], Shares]


class Identifier:
    """A library's guesses, restricted to the given languages that use the text's script. If the
    library has none of these, all are guessed."""

    def __init__(self, languages: Iterable[str], *, library: str = "py3langid") -> None:
        self._languages = frozenset(languages)
        self._profiles = LIBRARIES[library](self._languages)
        self._has_shares_of_all = library == "py3langid"

    def rank(self, text: str, languages: Collection[str] = ()) -> list[Guess]:
        """List the languages that `text` may be in, likeliest first, limited to `languages` if
        given. There are none if it has no letters, or none of their scripts."""
        text = _keep_words(text[:_ENOUGH]).strip()
        letters = len(_LETTER.findall(text))
        candidates = self._languages.intersection(languages or self._languages)
        # Japanese text has Chinese letters too, but Chinese text has no kana.
        is_written_in = {
            scripts: not letters
            or len(_letters_of(scripts).findall(text)) * 2 > letters
            for scripts in set(map(_scripts_of, candidates))
        }
        possible = {one for one in candidates if is_written_in[_scripts_of(one)]}
        if languages and len(possible) == 1:
            return [Guess(possible.pop(), 1.0)]
        if not letters:
            return []
        if possible.isdisjoint(self._profiles.languages):
            share = round(_share(len(possible)), 4)
            return [Guess(one, share) for one in sorted(possible)]
        possible &= self._profiles.languages
        is_short = len(text) <= _FEW_CHARACTERS and len(text.split()) <= _FEW_WORDS
        weigh = self._weigh_words if is_short else self._weigh
        ranked = sorted(weigh(text, possible), key=lambda found: (-found[1], found[0]))
        return [Guess(language, round(share, 4)) for language, share in ranked]

    def identify(self, text: str, languages: Collection[str] = ()) -> Guess:
        """Return the likeliest language, or `und` if there is too little evidence."""
        best, *_ = self.rank(text, languages) or [Guess("", 0.0)]
        if best.confidence < MIN_CONFIDENCE:
            return Guess(UNDETERMINED, best.confidence, best.language)
        return best

    def _weigh(self, text: str, possible: Set[str]) -> Shares:
        """Return the shares of the possible languages, which add up to 1."""
        ranked = self._profiles.rank(text)
        found = [(one, float(n)) for one, n in ranked if one in possible]
        total = sum(share for _, share in found)
        return [(language, share / total) for language, share in found if total]

    def _weigh_words(self, text: str, possible: Set[str]) -> Shares:
        """Return the shares for a few words, where impossible languages also have shares."""
        words = split_words(text)
        spelling = load_spelling()
        speakers = spelling.list_speakers(words) & possible
        if speakers:
            return [(language, _share(len(speakers))) for language in speakers]
        if not self._has_shares_of_all:
            return self._weigh(text, possible)
        shares = dict(_name(load_model().rank(text)))
        weights, mixture = spelling.weigh(words)
        scale = _STATISTICS * math.sqrt(len(text.encode(errors="replace")))
        for language in possible | shares.keys() | weights.keys():
            weight = weights.get(language, mixture)
            if language not in possible:
                weight = max(weight, mixture) + _UNEXPECTED
            share = max(shares.get(language, 0.0), _LEAST_SHARE)
            weights[language] = weight + scale * math.log(share)
        most = max(weights.values())
        total = sum(math.exp(weight - most) for weight in weights.values())
        return [(one, math.exp(weights[one] - most) / total) for one in possible]


def weigh_identification(text: str) -> int:
    """Return the work of identifying the language of a text, in characters."""
    return _TEXT_CHARACTERS + min(len(text), _ENOUGH)


@cache
def load_model() -> LanguageIdentifier:
    """Load py3langid's model for all languages, which takes a second or two. Its 70 MB are
    shared with processes that are forked afterwards."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _keep_words(text: str) -> str:
    """Drop what translations keep, and capitalised Latin words in a text of another script."""
    kept = find_protected(text)
    text = fill(text, kept, [" "] * len(kept))
    rest = _LATIN_WORD.sub(lambda word: word[0] if word[0].islower() else " ", text)
    return rest if _OTHER_WORD.search(rest) and not _LATIN_WORD.search(rest) else text


def _share(count: int) -> float:
    """Return the share of each language. Evidence for several languages decides for none."""
    return 1.0 if count == 1 else 1 / (count + 1)


def _name(ranked: Shares) -> Shares:
    """Replace a library's codes with tags."""
    return ((find_tag(code) or code, share) for code, share in ranked)


@cache
def _profile_with_py3langid(languages: frozenset[str]) -> Profiles:
    """Restrict the model to some languages, which takes milliseconds."""
    model = copy(load_model())
    labels = {label: find_tag(label) for label in model.labels}
    model.set_languages(sorted(one for one in labels if labels[one] in languages))
    known = languages & set(labels.values())
    return Profiles(known, lambda text: _name(model.rank(text)))


def _profile_with_lingua(languages: frozenset[str]) -> Profiles:
    from lingua import Language, LanguageDetectorBuilder

    codes = {
        known: find_tag(known.iso_code_639_1.name.lower()) or ""
        for known in Language.all()
    }
    served = [known for known, code in codes.items() if code in languages]
    detector = LanguageDetectorBuilder.from_languages(*served).build()

    def rank(text: str) -> Shares:
        for found in detector.compute_language_confidence_values(text):
            yield codes[found.language], found.value

    return Profiles(frozenset(codes.values()) & languages, rank)


#: The libraries that can rank languages. lingua is an optional extra.
LIBRARIES: Mapping[str, Callable[[frozenset[str]], Profiles]] = {
    "py3langid": _profile_with_py3langid,
    "lingua": _profile_with_lingua,
}


@cache
def _scripts_of(language: str) -> tuple[str, ...]:
    return (*SCRIPTS.get(language, _MOST_COMMON), *_READ_AS_WELL.get(language, ()))


@cache
def _letters_of(scripts: tuple[str, ...]) -> regex.Pattern[str]:
    names = "".join(rf"\p{{Script={name}}}" for name in scripts)
    return regex.compile(f"[{names}]")
