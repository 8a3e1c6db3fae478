"""Plain text: each line is translated. Lines that were broken to fit a width are one text,
and their translation is broken at the same width.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from documents.formats.encoding import find_encoding, stream_lines
from documents.formats.format import Edit, has_letter, make_stream_format

#: The widths at which people break lines, in characters.
_LEAST_WIDTH, _MOST_WIDTH = 40, 100
#: The most lines that are looked at together, and their characters. Lines that are longer
#: were not broken.
_MAX_LINES, _MAX_CHARACTERS = 200, 200 * 2 * _MOST_WIDTH
_END = re.compile(r"(?:[.!?:;…।۔؟。！？：；][\"'»”’)\]」』]*|\|)\s*\Z")
_ITEM = re.compile(r"\s*(?:[-*+•–—>#|=]|\d{1,3}[.)])\s")


def find_edits(block: str) -> Iterator[Edit]:
    """The edits of lines that follow each other, in order."""
    lines = _split(block)
    width = max((len(line.rstrip()) for line in lines), default=0)
    start = index = 0
    while index < len(lines):
        last = index
        while last + 1 < len(lines) and _goes_on(lines[last], lines[last + 1], width):
            last += 1
        taken = lines[index : last + 1]
        if has_letter(text := join([line.strip() for line in taken])):
            first = start + len(taken[0]) - len(taken[0].lstrip())
            end = start + len("".join(taken).rstrip())
            yield _make_edit(first, end, text, taken, width=width)
        start += sum(map(len, taken))
        index = last + 1


def join(lines: list[str]) -> str:
    """Lines as one; Chinese and Japanese have no space between them."""
    parts: list[str] = []
    for line in filter(None, lines):
        is_dense = bool(parts) and _is_dense(parts[-1][-1]) and _is_dense(line[0])
        parts += [line] if is_dense or not parts else [" ", line]
    return "".join(parts)


def _is_dense(character: str) -> bool:
    return "\u2e80" <= character <= "\ua4cf" or "\uff00" <= character <= "\uffef"


def _split(block: str) -> list[str]:
    """Lines as editors show them; Python's own method knows further ends."""
    return re.findall(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]+", block)


def _goes_on(line: str, following: str, width: int) -> bool:
    """Whether a line was broken because the next word did not fit."""
    line, words = line.rstrip(), following.split(maxsplit=1)
    return (
        width <= _MOST_WIDTH
        and len(line) >= _LEAST_WIDTH
        and bool(words)
        and len(line) + 1 + len(words[0]) > width
        and not _END.search(line)
        and not _ITEM.match(following)
    )


def _make_edit(
    start: int, end: int, text: str, lines: list[str], *, width: int
) -> Edit:
    if len(lines) == 1:
        return Edit(start, end, (text,), lambda new, _: new[0])
    first, second = lines[:2]
    ends = first[len(first.rstrip("\r\n")) :]
    indent = second[: len(second) - len(second.lstrip())]
    before = " " * (len(first) - len(first.lstrip()))

    def write(new: str) -> str:
        broken = textwrap.wrap(
            new,
            width,
            initial_indent=before,
            subsequent_indent=indent,
            break_long_words=any(map(_is_dense, new)),
            break_on_hyphens=False,
        )
        return ends.join(broken)[len(before) :]

    return Edit(start, end, (text,), lambda new, _: write(new[0]))


def _find_blocks(path: Path) -> Iterator[tuple[str, Iterable[Edit]]]:
    """The lines between empty lines, and each empty line."""
    block: list[str] = []
    left = _MAX_CHARACTERS
    for line in stream_lines(path, find_encoding(path)):
        block.append(line)
        left -= len(line)
        if not line.strip() or len(block) == _MAX_LINES or left < 0:
            yield (text := "".join(block)), find_edits(text)
            block, left = [], _MAX_CHARACTERS
    yield (text := "".join(block)), find_edits(text)


FORMAT = make_stream_format((".txt", ".text"), "text/plain", "text", _find_blocks)
