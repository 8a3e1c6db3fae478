"""Chooses which rows of a batch a model runs together, by their lengths."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def pack(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Packs of rows with similar lengths, longest first. With padding, a pack has at most
    `max_tokens`; a longer row goes alone."""
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
    """Packs for `translators` that work at the same time: as many as `max_tokens` needs,
    rounded up so that no translator is idle, with tokens as equal as possible.

    A larger budget makes fewer packs, so bisection finds the smallest budget that makes no
    more than the wanted number.
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
    """Rows in their order, in one part per translator."""
    size = max(1, -(-rows // translators))
    return [
        list(range(start, min(start + size, rows))) for start in range(0, rows, size)
    ]
