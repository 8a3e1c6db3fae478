"""Plain text: each line is translated. Lines that were broken to fit a width are one text,
and their translation is broken at the same width.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from documents.formats.encoding import Encoding, stream_lines
from documents.formats.format import Edit, Parts, has_letter, make_format, split_edges

#: The widths at which people break lines, in characters.
_LEAST_WIDTH, _MOST_WIDTH = 40, 100
#: The maximum lines and characters in a block. Longer lines were not broken to fit a width.
_MAX_LINES, _MAX_CHARACTERS = 200, 200 * 2 * _MOST_WIDTH
_END = re.compile(r"(?:[.!?:;…।۔؟。！？：；][\"'»”’)\]」』]*|\|)\s*\Z")
_ITEM = re.compile(r"\s*(?:[-*+•–—>#|=]|\d{1,3}[.)])\s")


def _find_edits(lines: Sequence[str]) -> Iterator[Edit]:
    width = max((len(line.rstrip()) for line in lines), default=0)
    start = index = 0
    while index < len(lines):
        last = index
        while last + 1 < len(lines) and _goes_on(lines[last], lines[last + 1], width):
            last += 1
        taken = lines[index : last + 1]
        if has_letter(text := join([line.strip() for line in taken])):
            yield _make_edit(start, text, taken, width)
        start += sum(map(len, taken))
        index = last + 1


def join(lines: list[str]) -> str:
    """Join lines into one, without spaces between Chinese or Japanese characters."""
    parts: list[str] = []
    for line in filter(None, lines):
        is_dense = bool(parts) and _is_dense(parts[-1][-1]) and _is_dense(line[0])
        parts += [line] if is_dense or not parts else [" ", line]
    return "".join(parts)


def _is_dense(character: str) -> bool:
    return "\u2e80" <= character <= "\ua4cf" or "\uff00" <= character <= "\uffef"


def _goes_on(line: str, following: str, width: int) -> bool:
    """Whether a line was broken because the next word did not fit."""
    line = line.rstrip()
    words = following.split(maxsplit=1)
    return (
        width <= _MOST_WIDTH
        and len(line) >= _LEAST_WIDTH
        and bool(words)
        and len(line) + 1 + len(words[0]) > width
        and not _END.search(line)
        and not _ITEM.match(following)
    )


def _make_edit(start: int, text: str, lines: Sequence[str], width: int) -> Edit:
    before, inner, _ = split_edges("".join(lines))
    indent = split_edges(lines[1])[0] if len(lines) > 1 else ""
    ends = lines[0][len(lines[0].rstrip("\r\n")) :]

    def write(new: Sequence[str], _: str) -> str:
        if len(lines) == 1:
            return new[0]
        broken = textwrap.wrap(
            new[0],
            width,
            initial_indent=" " * len(before),
            subsequent_indent=indent,
            break_long_words=any(map(_is_dense, new[0])),
            break_on_hyphens=False,
        )
        return ends.join(broken)[len(before) :]

    start += len(before)
    return Edit(start, start + len(inner), (text,), write)


def _find_blocks(path: Path, encoding: Encoding) -> Parts:
    """Yield blocks of lines, each up to an empty line or the limits."""
    block: list[str] = []
    left = _MAX_CHARACTERS
    for line in stream_lines(path, encoding):
        block.append(line)
        left -= len(line)
        if not line.strip() or len(block) == _MAX_LINES or left < 0:
            yield "".join(block), _find_edits(block)
            block, left = [], _MAX_CHARACTERS
    yield "".join(block), _find_edits(block)


FORMAT = make_format((".txt", ".text"), "text/plain", "text", _find_blocks)
