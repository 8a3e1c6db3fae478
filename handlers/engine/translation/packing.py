"""Chooses which rows of a batch a model runs together, by their lengths."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def pack(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Rows of like length together, the longest first. A pack times its longest row, so
    with the padding, is at most `max_tokens`; a row that is longer goes alone."""
    packs: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        if packs and lengths[packs[-1][0]] * (len(packs[-1]) + 1) <= max_tokens:
            packs[-1].append(row)
        else:
            packs.append([row])
    return packs


def spread(
    lengths: Sequence[int], *, max_tokens: int, translators: int
) -> list[list[int]]:
    """Packs for `translators` that work at the same time: as many as `max_tokens` asks for,
    rounded up so that none is idle, and as equal in tokens as they can be.

    Packs become fewer as the budget grows, so the smallest budget that gives no more than
    the wanted number is found by bisection.
    """
    least = len(pack(lengths, max_tokens=max_tokens))
    wanted = -(-least // translators) * translators
    budget = bisect_left(
        range(max_tokens),
        -wanted,
        key=lambda tokens: -len(pack(lengths, max_tokens=tokens)),
    )
    return pack(lengths, max_tokens=budget)


def split(rows: int, *, translators: int) -> list[list[int]]:
    """Rows in the order in which they came, in one piece per translator."""
    size = max(1, -(-rows // translators))
    return [
        list(range(start, min(start + size, rows))) for start in range(0, rows, size)
    ]
