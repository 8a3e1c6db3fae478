"""The places of Markdown's inline content in the file: the parser gives only lines, and
takes away indentation, marks of quotations and the backslashes of pipes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from markdown_it.token import Token

_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
_PIPE = re.compile(r"(?:[^|\\]++|\\.)*+\|")
_CELL_END = re.compile(r"\s*+(?:\||\Z)")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class Places:
    """Pairs of offsets, in a block's content and in the file. In between they run in step."""

    inner: Sequence[int]
    outer: Sequence[int]

    def find(self, offset: int) -> int:
        """The place in the file of a character of the content."""
        index = bisect_right(self.inner, offset) - 1
        return self.outer[index] + offset - self.inner[index]


@dataclass
class Locator:
    """Finds the places of a file's blocks, which must come in order."""

    content: str
    #: The start of each line and, in a row of a table, where its next cell begins.
    starts: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    cells: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for line in _LINE.finditer(self.content):
            self.starts.append(line.start())
            self.lines.append(line[0].rstrip("\r\n"))

    def locate(self, block: Token, parent: Token) -> Places | None:
        """The places of a block inside its parent; None if its text is not found."""
        first = block.map[0] if block.map else 0
        if parent.type in ("th_open", "td_open"):
            return self._locate_cell(block.content, first)
        inner, outer, offset = [], [], 0
        for number, part in enumerate(block.content.split("\n"), first):
            line, text = self.lines[number], part.strip()
            start = len(line.rstrip()) - len(text)
            if parent.type == "heading_open" and parent.markup.startswith("#"):
                after = line.find(parent.markup) + len(parent.markup)
                start = line.find(text, after)
            if start < 0 or not line.startswith(text, start):
                return None
            inner.append(offset + len(part) - len(part.lstrip()))
            outer.append(self.starts[number] + start)
            offset += len(part) + 1
        return Places(inner, outer)

    def _locate_cell(self, text: str, number: int) -> Places | None:
        line, start = self.lines[number], self.starts[number]
        raw, place = text.replace("|", r"\|"), self.cells.get(number, 0)
        if not raw and not place:
            # An empty cell is the first one only behind a pipe.
            place = _skip(_PIPE, line, 0)
        at = _find_cell(line, raw, place)
        self.cells[number] = _skip(_PIPE, line, place if at < 0 else at + len(raw))
        if at < 0 or not text:
            return None
        inner, outer, place = [0], [start + at], start + at
        for index, character in enumerate(text):
            place += 1 + (character == "|")
            if character == "|":
                inner.append(index + 1)
                outer.append(place)
        return Places(inner, outer)


def _find_cell(line: str, raw: str, place: int) -> int:
    """Find the place of the next cell's text, or -1. Before the first cell may be the marks
    of lists and quotations."""
    at = _skip(_SPACE, line, place) if place else line.find(raw)
    while at >= 0:
        if line.startswith(raw, at) and _CELL_END.match(line, at + len(raw)):
            return at
        at = -1 if place else line.find(raw, at + 1)
    return at


def _skip(pattern: re.Pattern[str], line: str, place: int) -> int:
    """The place after what is found at one, or the line's end."""
    found = pattern.match(line, place)
    return found.end() if found else len(line)
