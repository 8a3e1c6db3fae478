"""The probabilities of words, by the sequences of characters in a language."""

import math

import pytest

from text.spelling import Spelling, split_words

SPELLING = Spelling({"a": ["aba", "abba"], "b": ["bob", "aba"]})


def test_only_languages_with_all_words_speak_them():
    assert SPELLING.list_speakers(["aba"]) == {"a", "b"}
    assert SPELLING.list_speakers(["aba", "bob"]) == {"b"}
    assert SPELLING.list_speakers(["ab"]) == set()


@pytest.mark.parametrize(
    ("word", "likelier"), [("abba", "a"), ("babba", "a"), ("bobo", "b"), ("ббbob", "b")]
)
def test_a_word_is_likelier_where_its_characters_are_known(word, likelier):
    weights, mixture = SPELLING.weigh([word])
    assert max(weights, key=weights.__getitem__) == likelier
    assert mixture > min(weights.values())


def test_the_probabilities_of_what_may_follow_are_at_most_one():
    for language in ("a", "b"):
        starts = [SPELLING.weigh([first])[0][language] for first in "abo"]
        assert 0 < sum(map(math.exp, starts)) < 1


def test_words_are_letters_with_their_marks():
    assert split_words("Ça-va, 3 ÉTÉ? नमस्ते") == ["ça", "va", "été", "नमस्ते"]
    assert split_words("e\u0301te\u0301") == ["été"]
