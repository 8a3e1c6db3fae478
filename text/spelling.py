"""Identifies languages by the spelling of a few words, where statistics of whole texts fail."""

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import regex

#: A line with words for each language, written by `models/phrasebook_recipe/words.py`.
_WORDS = Path(__file__).with_name("words.txt")
_WORD = regex.compile(r"[\p{L}\p{M}]+")
#: The length of n-grams of characters. Longer ones need memory without improving the results.
_TOGETHER = 4
#: The probability of a character that no language has.
_UNSEEN = 1 / 3000


class Spelling:
    """The words of some languages, and the probability of others by their characters: in each
    language, each depends on the three before it, smoothed as by Witten and Bell (1991)."""

    def __init__(self, words: Mapping[str, Collection[str]]) -> None:
        self._vocabularies = {code: frozenset(found) for code, found in words.items()}
        columns = [*words.values(), dict.fromkeys(chain.from_iterable(words.values()))]
        counts = [Counter(chain.from_iterable(map(_list_grams, f))) for f in columns]
        # Shorter ones first, as longer ones fall back on them. The last column is the mixture.
        self._rows = {gram: row for row, gram in enumerate(sorted(counts[-1], key=len))}
        counted = np.zeros((len(self._rows), len(columns)), np.float32)
        for column, found in enumerate(counts):
            rows = [self._rows[gram] for gram in found]
            counted[rows, column] = list(found.values())
        self._log_shares, self._contexts, self._log_rests = self._smooth(counted)

    def _smooth(
        self, counted: np.ndarray
    ) -> tuple[np.ndarray, dict[str, int], np.ndarray]:
        """Return the logarithms of the shares of characters after their contexts, the contexts,
        and the logarithms of the shares that contexts leave to characters never seen there."""
        found = dict.fromkeys(gram[:-1] for gram in self._rows)
        contexts = {context: row for row, context in enumerate(found)}
        after = np.array([contexts[gram[:-1]] for gram in self._rows])
        totals = np.zeros((len(contexts), counted.shape[1]), np.float32)
        kinds = np.full_like(totals, 1e-9)  # a context unknown to a language leaves all
        np.add.at(totals, after, counted)
        np.add.at(kinds, after, counted > 0)
        rests = kinds / (totals + kinds)
        shares = counted / (totals + kinds)[after]
        shorter = np.array([self._rows.get(gram[1:], 0) for gram in self._rows])
        lengths = np.array(list(map(len, self._rows)))
        for length in range(1, _TOGETHER + 1):
            rows = lengths == length
            less = shares[shorter[rows]] if length > 1 else _UNSEEN
            shares[rows] += rests[after[rows]] * less
        return np.log(shares), contexts, np.log(rests)

    def list_speakers(self, words: Iterable[str]) -> set[str]:
        """Return the languages that have all of these words."""
        wanted = set(words)
        return {code for code, known in self._vocabularies.items() if wanted <= known}

    def weigh(self, words: Iterable[str]) -> tuple[dict[str, float], float]:
        """Return the log probability of the words in each language, and in a mixture of all."""
        rows, contexts, unseen = [], [], 0
        for gram in chain.from_iterable(map(_list_characters, words)):
            while gram and gram not in self._rows:
                if gram[:-1] in self._contexts:
                    contexts.append(self._contexts[gram[:-1]])
                gram = gram[1:]
            rows += [self._rows[gram]] if gram else []
            unseen += not gram
        weights = self._log_shares[rows].sum(0) + self._log_rests[contexts].sum(0)
        *each, mixture = (weights + unseen * math.log(_UNSEEN)).tolist()
        return dict(zip(self._vocabularies, each, strict=True)), mixture


def split_words(text: str) -> list[str]:
    """List the words of a text in lower case."""
    return _WORD.findall(unicodedata.normalize("NFC", text.lower()))


@cache
def load_spelling() -> Spelling:
    """Load the spelling of the languages in `words.txt`, which takes half a second."""
    lines = [line.split() for line in _WORDS.read_text("utf-8").splitlines()]
    return Spelling({code: words for code, *words in lines})


def _list_characters(word: str) -> Iterator[str]:
    """Yield each character after the first with up to three before it; marks bound the word."""
    word = f"^{word}$"
    for end in range(2, len(word) + 1):
        yield word[max(0, end - _TOGETHER) : end]


def _list_grams(word: str) -> list[str]:
    """List the n-grams of `_list_characters`, and their shorter endings."""
    return [gram[n:] for gram in _list_characters(word) for n in range(len(gram))]
