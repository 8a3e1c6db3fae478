"""Packs hold every row once, keep to their budget, and leave no translator idle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.engine.translation.packing import pack, split, spread

LENGTHS = st.lists(st.integers(1, 300), max_size=64)
BUDGET = st.integers(1, 5000)
TRANSLATORS = st.integers(1, 8)


def cost(packed: list[int], lengths: list[int]) -> int:
    """Tokens of a pack with its padding."""
    return len(packed) * max(lengths[row] for row in packed)


def check(packs: list[list[int]], lengths: list[int], max_tokens: int) -> None:
    rows = [row for packed in packs for row in packed]
    assert sorted(rows) == list(range(len(lengths)))
    in_order = [lengths[row] for row in rows]
    assert in_order == sorted(lengths, reverse=True)
    for packed in packs:
        assert len(packed) == 1 or cost(packed, lengths) <= max_tokens


@given(LENGTHS, BUDGET, TRANSLATORS)
def test_every_row_is_in_one_pack_by_length_and_within_the_budget(
    lengths: list[int], max_tokens: int, translators: int
):
    check(pack(lengths, max_tokens=max_tokens), lengths, max_tokens)
    packs = spread(lengths, max_tokens=max_tokens, translators=translators)
    check(packs, lengths, max_tokens)


@given(LENGTHS, BUDGET)
def test_a_pack_is_closed_only_when_it_is_full(lengths: list[int], max_tokens: int):
    packs = pack(lengths, max_tokens=max_tokens)
    for packed, following in zip(packs, packs[1:], strict=False):
        assert cost([*packed, following[0]], lengths) > max_tokens


@given(LENGTHS, BUDGET, TRANSLATORS)
def test_packs_that_are_spread_are_as_few_as_keep_all_translators_at_work(
    lengths: list[int], max_tokens: int, translators: int
):
    least = len(pack(lengths, max_tokens=max_tokens))
    packs = spread(lengths, max_tokens=max_tokens, translators=translators)
    assert least <= len(packs)
    assert len(packs) < least + translators


@given(st.integers(0, 100), TRANSLATORS)
def test_a_split_keeps_the_order_and_has_a_piece_per_translator(
    rows: int, translators: int
):
    pieces = split(rows, translators=translators)
    assert [row for piece in pieces for row in piece] == list(range(rows))
    assert all(pieces)
    assert len(pieces) <= translators


@pytest.mark.parametrize("translators", [1, 2, 4, 8])
def test_a_batch_of_equal_rows_is_spread_evenly(translators: int):
    packs = spread([20] * 64, max_tokens=4096, translators=translators)
    assert [len(packed) for packed in packs] == [64 // translators] * translators


def test_one_translator_takes_all_that_the_budget_allows():
    assert spread([3, 9, 5], max_tokens=27, translators=1) == [[1, 2, 0]]
    assert spread([3, 9, 5], max_tokens=26, translators=1) == [[1], [2, 0]]


def test_a_long_row_does_not_pad_the_short_ones():
    assert spread([4, 4, 100, 4], max_tokens=4096, translators=2) == [[2], [0, 1, 3]]


def test_rows_over_the_budget_go_alone():
    assert pack([50, 7, 60], max_tokens=10) == [[2], [0], [1]]


def test_of_no_rows_there_are_no_packs():
    assert spread([], max_tokens=10, translators=2) == split(0, translators=2) == []
