"""The cache in shared memory: its hits, its evictions, and its secrecy without the key."""

import mmap
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import hypothesis
import pytest
from hypothesis import strategies as st

from gateway.cache.table import CacheKey, CacheTable, ClaimTable, make_key, share

ONE_BUCKET = 8192
make = partial(make_key, b"secret")


def make_table(size: int = ONE_BUCKET) -> tuple[CacheTable, mmap.mmap]:
    memory = mmap.mmap(-1, size)
    return CacheTable(memory), memory


@hypothesis.given(
    st.lists(st.tuples(st.integers(0, 30), st.binary(max_size=1500)), max_size=60)
)
def test_a_key_has_a_value_that_was_given_to_it_or_none(puts):
    table, given = make_table()[0], dict[int, set[bytes]]()
    for number, value in puts:
        given.setdefault(number, set()).add(value)
        table.put(make(str(number)), value)
        assert table.get(make(str(number))) in given[number]
        for known, values in given.items():
            assert table.get(make(str(known))) in (None, *values)


def test_what_is_asked_for_again_outlives_a_flood_of_what_is_not():
    table, _ = make_table()
    wanted = [make(f"wanted {number}") for number in range(10)]
    for key in wanted:
        table.put(key, b"a" * 100)
        table.get(key)
    for number in range(500):
        table.put(make(f"new {number}"), b"b" * 100)
    assert all(map(table.get, wanted))
    assert table.get(make("new 0")) is None


def test_a_value_that_is_used_is_not_overwritten_by_others_that_are_kept():
    table, _ = make_table()
    used = make("used")
    table.put(used, b"u")
    for number in range(300):
        assert table.get(used) == b"u"
        other = make(str(number))
        table.put(other, b"b" * 100)
        table.get(other)
    assert table.get(make("0")) is None


@pytest.mark.parametrize(
    ("size", "is_kept"), [(0, True), (900, True), (3000, True), (3001, False)]
)
def test_a_value_is_kept_whole_or_not(size, is_kept):
    table, _ = make_table(4 * ONE_BUCKET)
    value = os.urandom(size)
    table.put(make("a"), value)
    assert table.get(make("a")) == (value if is_kept else None)


def test_memory_shows_neither_values_nor_texts_nor_what_is_equal():
    table, memory = make_table()
    texts = [b"Ein geheimer Satz.", b"Ein geheimer Satz."]
    for number, text in enumerate(texts):
        table.put(make(f"A secret sentence. {number}"), text)
    content = memory[:]
    for word in (b"geheimer", b"secret", b"Satz"):
        assert word not in content
    assert make_key(b"other", "a") != make("a")


def test_what_others_have_torn_is_not_found():
    generator = random.Random(7)
    table, memory = make_table()
    for number in range(2000):
        key, value = make(str(number % 20)), b"%d" % (number % 20) * 30
        table.put(key, value)
        at = generator.randrange(ONE_BUCKET - 40)
        memory[at : at + 40] = generator.randbytes(40)
        assert table.get(key) in (value, None)


def test_processes_that_are_forked_share_the_memory():
    table, *_ = share(ONE_BUCKET)
    assert share(ONE_BUCKET)[0] is table
    child = os.fork()
    if not child:
        table.put(make("a"), b"from the child")
        os._exit(0)
    os.waitpid(child, 0)
    assert table.get(make("a")) == b"from the child"


@contextmanager
def claim_elsewhere(claims: ClaimTable, key: CacheKey, left_s: float) -> Iterator[None]:
    """Claim a row in another process, which ends with the block."""
    (reads, writes), (hears, tells) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(tells)
        claims.take(key, time.monotonic() + left_s)
        os.write(writes, b".")
        os.read(hears, 1)
        os._exit(0)
    os.read(reads, 1)
    yield
    os.close(tells)
    os.waitpid(child, 0)


def test_a_claim_is_for_others_and_ends_with_its_process():
    claims, key = ClaimTable(mmap.mmap(-1, 1024)), make("a")
    with claim_elsewhere(claims, key, left_s=60):
        assert claims.is_taken(key)
        assert not claims.is_taken(make("b"))
        claims.give_back(key)  # it is not ours
        assert claims.is_taken(key)
    assert not claims.is_taken(key)


def test_a_claim_ends_with_its_time_or_when_it_is_given_back():
    claims, key = ClaimTable(mmap.mmap(-1, 1024)), make("a")
    with claim_elsewhere(claims, key, left_s=0):
        assert not claims.is_taken(key)
    claims.take(key, time.monotonic() + 60)
    assert not claims.is_taken(key)  # it is ours
    claims.give_back(key)
    assert claims._memory[:] == bytes(1024)
