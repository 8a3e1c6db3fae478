"""A key-value table in memory that the gateway's processes share, without locks. A value cannot
be read without its key.
"""

import hashlib
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

#: Bytes of a bucket. A bucket is two ring buffers, each with its own write position: a small
#: one for new values, and one for values that were requested again.
_BUCKET = 8192
_NEW, _KEPT = (4, 2048), (2048, _BUCKET)
_PLACES = {_NEW: 0, _KEPT: 2}
#: Bytes of a tag, of a length, of a nonce and of a checksum.
_TAG, _LENGTH, _NONCE, _SUM = 8, 2, 8, 4
#: A claim (the tag of its key, its process, and when it expires), and the most claims.
_CLAIM, _CLAIMS = struct.Struct("=8sqd"), 8192
#: A larger value would displace too many others.
_MOST_BYTES = 3000


@dataclass(frozen=True)
class CacheKey:
    """A key: its place and tag in the table, and the secret that encrypts its value."""

    place: int
    tag: bytes
    secret: bytes

    def seal(self, value: bytes) -> bytes:
        """Encrypt a value, with a checksum."""
        nonce = os.urandom(_NONCE)
        return nonce + self._mix(nonce, zlib.crc32(value).to_bytes(_SUM, "big") + value)

    def open(self, sealed: bytes) -> bytes | None:
        """Decrypt a value. None if it is damaged or belongs to another key."""
        plain = self._mix(sealed[:_NONCE], sealed[_NONCE:])
        value = plain[_SUM:]
        is_whole = plain[:_SUM] == zlib.crc32(value).to_bytes(_SUM, "big")
        return value if is_whole else None

    def _mix(self, nonce: bytes, data: bytes) -> bytes:
        """Encrypt or decrypt, with the output of SHAKE as a stream cipher."""
        size = len(data)
        stream = hashlib.shake_128(self.secret + nonce).digest(size)
        mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
        return mixed.to_bytes(size, "big")


def make_key(secret: bytes, text: str) -> CacheKey:
    """Return the key of a text. Without the secret, stored keys do not reveal any texts."""
    content = text.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, key=secret).digest()
    return CacheKey(int.from_bytes(digest[:8], "big"), digest[8:16], digest[16:])


class CacheTable:
    """The table of values. Values that were not requested again are overwritten first.

    Two processes may write to one place: the result fails its checksum, and is not found. The
    policy is that of S3-FIFO (Yang et al., 2023) with lazy promotion: a value that is found in
    the small ring, or shortly before it is overwritten, is written again."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._buckets = len(memory) // _BUCKET

    def get(self, key: CacheKey) -> bytes | None:
        """Return the value of a key, or None."""
        start = key.place % self._buckets * _BUCKET
        bucket = self._memory[start : start + _BUCKET]
        if bucket.find(key.tag) < 0:
            return None
        for at in (*_find(bucket, key.tag, _KEPT), *_find(bucket, key.tag, _NEW)):
            sealed_at = at + _TAG + _LENGTH
            size = int.from_bytes(bucket[at + _TAG : sealed_at], "big")
            sealed = bucket[sealed_at : sealed_at + size]
            value = key.open(sealed)
            if value is None:
                continue
            if at < _KEPT[0] or _is_old(bucket, at, key.tag):
                self._append(start, _KEPT, key.tag, sealed)
            return value
        return None

    def put(self, key: CacheKey, value: bytes) -> None:
        """Store a value, unless it is too large."""
        if len(value) <= _MOST_BYTES:
            start = key.place % self._buckets * _BUCKET
            sealed = key.seal(value)
            is_small = len(sealed) < (_NEW[1] - _NEW[0]) // 2
            self._append(start, _NEW if is_small else _KEPT, key.tag, sealed)

    def _append(
        self, start: int, ring: tuple[int, int], tag: bytes, sealed: bytes
    ) -> None:
        entry = tag + len(sealed).to_bytes(_LENGTH, "big") + sealed
        at = _read_next(self._memory[start : start + 4], ring)
        size = len(entry)
        if at + size > ring[1]:
            at = ring[0]
        self._memory[start + at : start + at + size] = entry
        place = start + _PLACES[ring]
        self._memory[place : place + 2] = (at + size).to_bytes(2, "big")


class ClaimTable:
    """The rows that each process has in flight, so that no other process sends them. If two
    rows have the same place, only the later one has a claim."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._count = len(memory) // _CLAIM.size

    def take(self, key: CacheKey, until: float) -> None:
        """Claim a row until this time of the monotonic clock."""
        _CLAIM.pack_into(self._memory, self._find(key), key.tag, os.getpid(), until)

    def is_taken(self, key: CacheKey) -> bool:
        """Whether another running process has claimed the row."""
        tag, process, until = _CLAIM.unpack_from(self._memory, self._find(key))
        if tag != key.tag or process == os.getpid() or until < time.monotonic():
            return False
        return _is_running(process)

    def give_back(self, key: CacheKey) -> None:
        """Release this process's claim on the row."""
        at = self._find(key)
        if _CLAIM.unpack_from(self._memory, at)[:2] == (key.tag, os.getpid()):
            _CLAIM.pack_into(self._memory, at, b"", 0, 0.0)

    def _find(self, key: CacheKey) -> int:
        return key.place % self._count * _CLAIM.size


@cache
def share(size: int) -> tuple[CacheTable, ClaimTable, bytes]:
    """Return the tables, with `size` bytes for values, and their secret; the same at each call.
    All processes forked later share them. The memory has no name, so no file contains it."""
    return (
        CacheTable(mmap.mmap(-1, max(size, _BUCKET))),
        ClaimTable(mmap.mmap(-1, _CLAIMS * _CLAIM.size)),
        os.urandom(hashlib.blake2b.MAX_KEY_SIZE),
    )


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _find(bucket: bytes, tag: bytes, ring: tuple[int, int]) -> Iterator[int]:
    """Yield each position of a tag in a ring."""
    at = bucket.find(tag, *ring)
    while at >= 0:
        yield at
        at = bucket.find(tag, at + 1, ring[1])


def _is_old(bucket: bytes, at: int, tag: bytes) -> bool:
    """Whether a kept value will be overwritten soon and has no other copy."""
    first, end = _KEPT
    ahead = (at - _read_next(bucket, _KEPT)) % (end - first)
    return ahead < (end - first) // 4 and bucket.count(tag, first) == 1


def _read_next(bucket: bytes, ring: tuple[int, int]) -> int:
    """Return the write position of a ring, which is its start in a new bucket."""
    place = _PLACES[ring]
    return max(ring[0], int.from_bytes(bucket[place : place + 2], "big"))
