"""Compares the automaton with a brute-force search."""

from collections.abc import Sequence
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from text.automaton import Automaton

UNKNOWN = 7
SYMBOLS = st.sampled_from([hash("a"), -hash("b"), 3])
PATTERNS = st.lists(
    st.lists(SYMBOLS, min_size=1, max_size=5).map(tuple), max_size=8, unique=True
)
SEQUENCES = st.lists(SYMBOLS | st.just(UNKNOWN), max_size=20)


def search(
    patterns: Sequence[tuple[int, ...]],
    sequence: Sequence[int],
    may_end: Sequence[bool],
) -> list[tuple[int, int, int]]:
    """Search as the automaton should."""
    place, found = 0, []
    while place < len(sequence):
        fitting = [
            pattern
            for pattern in patterns
            if tuple(sequence[place : place + len(pattern)]) == pattern
            and may_end[place + len(pattern) - 1]
        ]
        longest: tuple[int, ...] = max(fitting, key=len, default=())
        if longest:
            end = place + len(longest)
            found.append((place, end, patterns.index(longest)))
        place += len(longest) or 1
    return found


@given(PATTERNS, SEQUENCES, st.data())
def test_the_first_and_longest_patterns_are_found(patterns, sequence, data):
    ends = st.lists(st.booleans(), min_size=len(sequence), max_size=len(sequence)).map(
        lambda given: [True] * len(given) if sum(given) % 2 else given
    )
    may_end = data.draw(ends)
    automaton = make(patterns)
    assert automaton.repeated == []
    assert find(automaton, sequence, may_end) == search(patterns, sequence, may_end)


def make(patterns: Sequence[tuple[int, ...]]) -> Automaton:
    return Automaton([*chain.from_iterable(patterns)], [*map(len, patterns)])


def find(
    automaton: Automaton, sequence: Sequence[int], may_end: Sequence[bool]
) -> list[tuple[int, int, int]]:
    """Return the start, end and number of the leftmost longest matches, without overlaps."""
    begun, place, found = automaton.read(sequence), 0, []
    while place < len(sequence):
        length, number = automaton.find(begun, place, may_end)
        if length:
            found.append((place, place + length, number))
        place += length or 1
    return found


def test_a_pattern_keeps_its_first_number():
    automaton = make([(1, 2), (2,), (1, 2), (1, 2)])
    assert automaton.repeated == [(2, 0), (3, 0)]
    assert find(automaton, [1, 2, 2], [True] * 3) == [(0, 2, 0), (2, 3, 1)]
