"""The automaton against a search that tries everything."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gateway.text.automaton import UNKNOWN, Automaton

SYMBOLS = st.integers(1, 3)
PATTERNS = st.lists(
    st.lists(SYMBOLS, min_size=1, max_size=5).map(tuple), max_size=8, unique=True
)
SEQUENCES = st.lists(st.integers(UNKNOWN, 3), max_size=20)


def search(
    patterns: Sequence[tuple[int, ...]],
    sequence: Sequence[int],
    may_end: Sequence[bool],
) -> list[tuple[int, int, int]]:
    """What the automaton should find."""
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
    automaton = Automaton(3)
    for number, pattern in enumerate(patterns):
        assert automaton.add(pattern, number) == number
    for _ in automaton.finish():
        pass
    found = automaton.find(sequence, may_end)
    assert found == search(patterns, sequence, may_end)


def test_a_pattern_keeps_its_first_number():
    automaton = Automaton(2)
    assert automaton.add((1, 2), 0) == 0
    assert automaton.add((1, 2), 1) == 0
