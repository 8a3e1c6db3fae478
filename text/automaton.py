"""Finds many patterns in a sequence at once, in a time that depends only on the sequence."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

#: Spreads edges over 64 bits; symbols are already random.
_SPREAD, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
#: The nodes of a depth: the keys of the edges to them, their parents and symbols.
_Level = tuple[Any, Any, Any]


class Automaton:
    """An Aho-Corasick automaton of the reversed patterns. It reads a sequence from its end, and
    finds at every place the longest pattern that begins there. A forward automaton would have
    to backtrack after each incomplete pattern.

    Symbols are random 64-bit numbers, such as hashes. Nodes are numbered by depth, from the
    root, which is 0. A node needs 24 bytes.
    """

    def __init__(
        self,
        symbols: Sequence[int],
        lengths: Sequence[int],
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """Build the automaton from all patterns, calling `pause` regularly."""
        import numpy as np  # only glossaries need it

        flat = np.asarray(symbols, np.int64).view(np.uint64)
        nodes, levels = _grow(flat, np.asarray(lengths, np.int64), pause)
        counts = [len(keys) for keys, *_ in levels]
        #: The first node at each depth.
        self._firsts = [0, *accumulate(counts, initial=1)][:-1]
        size = 1 + sum(counts)
        keys = np.concatenate([np.zeros(0, np.uint64), *(keys for keys, *_ in levels)])
        order = np.argsort(keys)
        keys = keys[order]
        targets = (order + 1).astype(np.int32)
        numbers = np.full(size, -1, np.int32)
        numbers[nodes[::-1]] = np.arange(len(nodes), dtype=np.int32)[::-1]
        rests, ends = _link(keys, targets, levels, numbers >= 0, pause=pause)
        self._keys, self._targets = _pack("Q", keys), _pack("i", targets)
        #: For each node, that of the longest suffix of its path that is another node's, and
        #: that of the longest that is a pattern; its first pattern, or -1.
        self._rests, self._ends = _pack("i", rests), _pack("i", ends)
        self._numbers = _pack("i", numbers)
        firsts = numbers[nodes]
        again = np.flatnonzero(firsts != np.arange(len(nodes)))
        #: The numbers of repeated patterns, each with that of the first equal one.
        self.repeated = list(zip(again.tolist(), firsts[again].tolist(), strict=True))

    def read(self, symbols: Sequence[int]) -> list[int]:
        """Return for every place the node of the longest pattern that begins there, or 0."""
        node, ends = 0, self._ends
        begun = [0] * len(symbols)
        for place in range(len(symbols) - 1, -1, -1):
            node = self._step(node, symbols[place])
            begun[place] = ends[node]
        return begun

    def find(
        self, begun: Sequence[int], place: int, may_end: Sequence[bool]
    ) -> tuple[int, int]:
        """Return the length and the number of the longest pattern at a place, given the result
        `begun` of `read`; both are 0 if there is none. `may_end` marks the permitted ends."""
        node = begun[place]
        while node:
            length = bisect_right(self._firsts, node) - 1
            if may_end[place + length - 1]:
                return length, self._numbers[node]
            node = self._ends[self._rests[node]]
        return 0, 0

    def _step(self, node: int, symbol: int) -> int:
        keys, targets, rests = self._keys, self._targets, self._rests
        while True:
            key = (node * _SPREAD + symbol) & _MASK
            edge = bisect_left(keys, key)
            if edge < len(keys) and keys[edge] == key:
                return targets[edge]
            if not node:
                return 0
            node = rests[node]


def _grow(
    flat: Any, lengths: Any, pause: Callable[[], None]
) -> tuple[Any, list[_Level]]:
    """Return the node of each pattern, and all nodes by depth."""
    import numpy as np

    ends = np.cumsum(lengths)
    nodes = np.zeros(len(lengths), np.int32)
    active = np.arange(len(lengths))
    count = 1
    levels: list[_Level] = []
    while len(active := active[lengths[active] > len(levels)]):
        pause()
        parents = nodes[active]
        symbols = flat[ends[active] - 1 - len(levels)]
        keys, chosen, which = np.unique(
            _mix(parents, symbols), return_index=True, return_inverse=True
        )
        nodes[active] = count + which
        levels.append((keys, parents[chosen], symbols[chosen]))
        count += len(keys)
    return nodes, levels


def _link(
    keys: Any,
    targets: Any,
    levels: Sequence[_Level],
    is_pattern: Any,
    *,
    pause: Callable[[], None],
) -> tuple[Any, Any]:
    """Return each node's longest suffix that is a node, and its longest that is a pattern."""
    import numpy as np

    rests, ends = (np.zeros(len(is_pattern), np.int32) for _ in range(2))
    first = 1
    for own, parents, symbols in levels:
        pause()
        here = np.arange(first, first + len(own))
        deep = parents != 0
        left = here[deep]
        symbols = symbols[deep]
        where = rests[parents[deep]]
        while len(left):
            wanted = _mix(where, symbols)
            edges = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            found = np.where(keys[edges] == wanted, targets[edges], 0)
            rests[left] = found
            more = (found == 0) & (where != 0)
            left = left[more]
            symbols = symbols[more]
            where = rests[where[more]]
        ends[here] = np.where(is_pattern[here], here, ends[rests[here]])
        first += len(here)
    return rests, ends


def _mix(nodes: Any, symbols: Any) -> Any:
    """Return the keys of edges, as `_step` computes them."""
    return nodes.astype("uint64") * symbols.dtype.type(_SPREAD) + symbols


def _pack(kind: str, values: Any) -> array[int]:
    """Convert numpy's numbers to an array, from which single ones are read faster."""
    return array(kind, values.tobytes())
