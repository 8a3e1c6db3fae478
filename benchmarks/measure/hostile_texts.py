"""Texts that make a careless reader take quadratic time: each repeats a few characters."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A unit that is repeated, between a head and a tail."""

    name: str
    unit: str
    is_html: bool = False
    head: str = ""
    tail: str = ""

    @property
    def format(self) -> str:
        return "html" if self.is_html else "text"

    def write(self, size_bytes: int) -> str:
        """A text that takes about `size` bytes in a request's body."""
        times = (size_bytes - _measure(self.head + self.tail)) // _measure(self.unit)
        return self.head + self.unit * times + self.tail


def _measure(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - len('""')


_PLAIN = {
    "letters": "a",
    "words": "a ",
    "lines": "a\n",
    "bullets": "-\n",
    "line breaks": "\r\n",
    "digits": "1",
    "numbers": "1,",
    "quantities": "5 km ",
    "codes": "A-",
    "versions": "1.1.",
    "capitals": "AB ",
    "braces": "{",
    "open placeholders": "{{a",
    "dollars": "${",
    "placeholders": "x{b}",
    "printf": "%(a",
    "zeros": "%0",
    "colons": ":a",
    "shortcodes": ":1",
    "at signs": "a@",
    "addresses": "a@b.c ",
    "URLs": "http://",
    "backticks": "`",
    "fences": "``` ",
    "emoji": "😀",
    "accents": "e\u0301\u0301",
    "abbreviations": "e.g. ",
    "full stops": ".",
    "brackets": '"(',
    "Chinese quotations": "他说：“你好。”我们走吧。",
    "open quotations": "「",
}
_HTML = {
    "text of elements": "<b>x</b>",
    "open elements": "<b>",
    "paragraphs": "<p>x",
    "empty elements": "x<wbr>",
    "kept elements": "<code>",
    "opaque elements": "<pre><i class=notranslate>",
    "references": "&amp;",
    "ampersands": "&a",
    "less-than signs": "<",
    "closing signs": "</",
    "open tags": "<a a='",
    "attributes": '<a b=">" ',
    "comments": "<!--",
    "declarations": "<![a",
    "instructions": "<?a",
    "nested CDATA": "<![CDATA[>",
    "scripts": "<script>",
}
SHAPES = (
    *(Shape(name, unit) for name, unit in _PLAIN.items()),
    *(Shape(name, unit, is_html=True) for name, unit in _HTML.items()),
    Shape("one fence", "a ", head="```"),
    Shape("one quotation mark", "<a ", is_html=True, head="<a b='>", tail=">"),
    Shape("one endless tag", "a=", is_html=True, head="<a ", tail=">"),
    Shape("one endless number", "9", is_html=True, head="&#", tail=";"),
)
