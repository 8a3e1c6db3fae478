"""JSON: values that are language are translated. Keys, numbers, order, indentation and the
way in which other values are written stay. Flutter's resources (`.arb`) are JSON as well, with
metadata beside each message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from documents.errors import DamagedDocument, RefusedContent
from documents.formats.format import (
    Edit,
    is_prose,
    make_format,
    name_language,
    read_whole,
    split_edges,
)

#: Deeper than any file that people write.
_MAX_DEPTH = 200
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]++)
    | (?P<string>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")
    | (?P<value>-?(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+(?![\w.+-])
        | (?:true|false|null)\b)
    | (?P<sign>[{}\[\]:,])""",
    re.VERBOSE | re.ASCII,
)
#: Half of a character, which only an escape can write.
_HALF = re.compile("[\ud800-\udfff]")
#: The tokens that may come next, by the one that has been read.
_AFTER_VALUE = {"[": "a comma or ]", "{": "a comma or }", "": "the end of the file"}


@dataclass
class _Grammar:
    """The reader's position in a document's grammar."""

    expected: str = "value"
    opened: list[str] = field(default_factory=list)

    def take(self, kind: str) -> bool:
        """Reads a sign, `string` or `value`; returns whether it may stand here."""
        if kind in "[{" and self.expected in ("value", "value or ]"):
            self.opened.append(kind)
            self.expected = "value or ]" if kind == "[" else "key or }"
        elif kind in ("string", "value") and self.expected.startswith("value"):
            self._finish_value()
        elif kind == "string" and self.expected.startswith("key"):
            self.expected = ":"
        elif kind == ":" and self.expected == ":":
            self.expected = "value"
        elif kind == "," and self.opened and self.expected.startswith("a comma"):
            self.expected = "value" if self.opened[-1] == "[" else "key"
        elif kind in ("]", "}") and self.expected.endswith(kind):
            self.opened.pop()
            self._finish_value()
        else:
            return False
        return True

    def _finish_value(self) -> None:
        self.expected = _AFTER_VALUE[self.opened[-1] if self.opened else ""]


def find_edits(content: str, *, is_arb: bool = False) -> Iterator[Edit]:
    """The edits of a document, in order. In a file of resources, what stands below keys that
    begin with `@` stays, and `@@locale` gets the language. Raises DamagedDocument where it is
    not JSON, and RefusedContent if it is nested too deep."""
    grammar, place, key = _Grammar(), 0, ""
    is_escaped = content.isascii() and "\\u" in content
    while place < len(content):
        token = _TOKEN.match(content, place)
        kind = token.lastgroup if token else None
        is_value = grammar.expected.startswith("value")
        name = content[place] if kind == "sign" else str(kind)
        if not token or (kind != "space" and not grammar.take(name)):
            raise _refuse(content, place, grammar.expected)
        if len(grammar.opened) > _MAX_DEPTH:
            raise RefusedContent(
                f"The document is nested deeper than {_MAX_DEPTH} at {_where(content, place)}"
            )
        if kind == "string" and not is_value and len(grammar.opened) == 1:
            key = json.loads(token[0])
        elif kind == "string" and is_value:
            if not (is_arb and key.startswith("@")):
                yield from _find_edit(token[0], place, is_escaped)
            elif key == "@@locale":
                yield _name_locale(token[0], place)
        place = token.end()
    if grammar.expected != _AFTER_VALUE[""]:
        raise _refuse(content, place, grammar.expected)


def _find_edit(raw: str, start: int, is_escaped: bool) -> Iterator[Edit]:
    value: str = json.loads(raw)
    before, text, after = split_edges(value)

    def write(new: Sequence[str], _: str) -> str:
        written = json.dumps(before + new[0] + after, ensure_ascii=is_escaped)
        return written.replace("/", "\\/") if "\\/" in raw else written

    if is_prose(value) and not _HALF.search(value):
        yield Edit(start, start + len(raw), (text,), write)


def _name_locale(raw: str, start: int) -> Edit:
    def write(_: Sequence[str], language: str) -> str:
        return json.dumps(name_language(json.loads(raw), language))

    return Edit(start, start + len(raw), (), write)


def _where(content: str, place: int) -> str:
    line = content.count("\n", 0, place) + 1
    return f"line {line}, column {place - content.rfind(chr(10), 0, place)}"


def _refuse(content: str, place: int, expected: str) -> DamagedDocument:
    return DamagedDocument(f"No JSON at {_where(content, place)}: expected {expected}")


FORMAT = make_format((".json",), "application/json", "text", read_whole(find_edits))
_FIND_MESSAGES = read_whole(partial(find_edits, is_arb=True))
ARB = make_format((".arb",), "application/json", "text", _FIND_MESSAGES)
