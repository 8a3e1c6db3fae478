"""Mutated documents: pieces are deleted, repeated, moved, or replaced by meaningful strings."""

import struct
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.fuzz.shapes import WHOLE, make_seed, pack_parts
from tests.fuzz.trials import MAX_BYTES, find_most_bytes

_SIGNS = """< > & " ' / = <!-- --> <![CDATA[ ]]> <? ?> </ /> <a <a> </a> <b></b> &amp; &# { } {{
[ ] [^a [^1]: [a]: ]( ![ ( ) | || |-|-| \\ \\| ` ``` * ** _ ~~ $ # - --- => , ; : 0 -1 1e9 %0 %n
--> 00:00:01,000 WEBVTT msgid msgstr msgstr[0] msgid_plural #, "\\n" Language: nplurals=9;
plural= translate="no" xmlns:b="u" xmlns="" xml:space="preserve" charset=utf-7
charset=punycode encoding= \\u00e9 \\ud800 \\x41 = @ sep=; . ! ? 漢 é ا""".split()
_RAW = [s.encode() for s in _SIGNS] + [
    b"\n", b"\r", b"\r\n", b"\n\n", b" ", b"\t", b"\0", b"\xff",
    b"\xfe\xff", b"\xef\xbb\xbf",
    "\u2028\x85\x0c\u00a0".encode(), b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\7",
    *(struct.pack("<I", n) for n in (0, 1, 0xFFFF, 0xFFFFFFFF)),
]  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A replacement of bytes `start` to `end` by `new` (None: themselves), `times` times."""

    start: int
    end: int
    new: bytes | None
    times: int

    def apply(self, content: bytes, most: int) -> bytes:
        """Return the changed content, which does not grow beyond `most` bytes."""
        size = len(content) + 1
        start, end = sorted((self.start % size, self.end % size))
        piece = content[start:end] if self.new is None else self.new
        room = most - len(content) + end - start
        times = min(self.times, room // len(piece)) if piece else 0
        return content[:start] + piece * times + content[end:]


_PLACES = st.integers(0, 1 << 14)
_TIMES = st.sampled_from([*([0, 1, 1, 1, 2, 2, 3, 20] * 4), 1_000, MAX_BYTES])
_NEW = st.none() | st.sampled_from(_RAW) | st.binary(max_size=4)
_CHANGE = st.builds(Change, _PLACES, _PLACES, _NEW, _TIMES)
_CHANGES = st.lists(_CHANGE, min_size=1, max_size=6)


def draw_documents(ending: str) -> st.SearchStrategy[bytes]:
    """Documents with changes in one part, or in the bytes of the zip file."""
    parts, most = make_seed(ending), find_most_bytes(ending)
    whole = pack_parts(parts)

    def change(name: str, changes: list[Change]) -> bytes:
        return pack_parts({**parts, name: _apply(changes, parts[name], most)})

    changed = st.builds(change, st.sampled_from(sorted(parts)), _CHANGES)
    packed = _CHANGES.map(lambda changes: _apply(changes, whole, most))
    return changed if WHOLE in parts else changed | changed | packed


def _apply(changes: list[Change], content: bytes, most: int) -> bytes:
    for change in changes:
        content = change.apply(content, most)
    return content
