"""Finds many patterns in a sequence at once, in a time that grows with the sequence alone."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain

#: The number of a symbol that no pattern has.
UNKNOWN = 0


class Automaton:
    """Aho and Corasick's automaton of the reversed patterns. Read from its end, a sequence
    shows at every place the longest pattern that begins there. Going forward, an automaton
    would have to go back after each beginning that leads nowhere.

    Symbols are numbers from 1 to `most`; every pattern has its own number.
    """

    def __init__(self, most: int) -> None:
        self._width = most + 1
        self._edges: dict[int, int] = {}
        #: Each node's depth, the node and symbol before it, and its pattern or -1.
        self._depths, self._parents = array("i", [0]), array("i", [0])
        self._symbols, self._patterns = array("i", [0]), array("i", [-1])
        #: The nodes of each depth, from 1 on.
        self._levels: list[array[int]] = []
        #: The node of the longest end of a node's path that is another node's, and that of
        #: the longest that is a pattern.
        self._rests, self._ends = array("i", [0]), array("i", [0])

    def add(self, symbols: Sequence[int], number: int) -> int:
        """Adds a pattern, and returns the number of the one that was there before it."""
        node, edges = 0, self._edges
        for symbol in reversed(symbols):
            key = node * self._width + symbol
            found = edges.get(key)
            if found is None:
                found = edges[key] = len(self._depths)
                depth = self._depths[node]
                self._depths.append(depth + 1)
                if depth == len(self._levels):
                    self._levels.append(array("i"))
                self._levels[depth].append(found)
                self._parents.append(node)
                self._symbols.append(symbol)
                self._patterns.append(-1)
            node = found
        if self._patterns[node] < 0:
            self._patterns[node] = number
        return self._patterns[node]

    def finish(self) -> Iterable[None]:
        """Makes the automaton of the patterns; pauses after every node."""
        count = len(self._depths)
        self._rests = array("i", bytes(self._rests.itemsize * count))
        self._ends = array("i", bytes(self._ends.itemsize * count))
        for node in chain.from_iterable(self._levels):
            parent = self._parents[node]
            if parent:
                self._rests[node] = self._step(self._rests[parent], self._symbols[node])
            is_pattern = self._patterns[node] >= 0
            self._ends[node] = node if is_pattern else self._ends[self._rests[node]]
            yield

    def find(
        self, symbols: Sequence[int], may_end: Sequence[bool]
    ) -> list[tuple[int, int, int]]:
        """The first and longest patterns that do not overlap: where each begins and ends, and
        its number. `may_end` tells the symbols after which one may end."""
        node, ends = 0, self._ends
        begun = [0] * len(symbols)
        for place in range(len(symbols) - 1, -1, -1):
            node = self._step(node, symbols[place])
            begun[place] = ends[node]
        found = []
        place = 0
        while place < len(symbols):
            node = begun[place]
            while node and not may_end[place + self._depths[node] - 1]:
                node = ends[self._rests[node]]
            if node:
                found.append((place, place + self._depths[node], self._patterns[node]))
            place += self._depths[node] or 1
        return found

    def _step(self, node: int, symbol: int) -> int:
        if symbol == UNKNOWN:
            return 0
        edges, width, rests = self._edges, self._width, self._rests
        while True:
            found = edges.get(node * width + symbol)
            if found is not None:
                return found
            if not node:
                return 0
            node = rests[node]
