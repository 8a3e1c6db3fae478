"""Markdown: paragraphs, headings, list items and table cells. Bold text and links stay inside
their sentence; code, formulas, addresses, HTML and front matter stay unchanged.
"""

import re
import string
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any
from unicodedata import category

from markdown_it import MarkdownIt
from markdown_it.common.utils import mdTrim
from markdown_it.helpers import parseLinkLabel
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from contract.markup import scan, unescape
from documents.formats import inline
from documents.formats.format import LINE, Edit, has_letter, make_format, read_whole
from documents.formats.inline import InlinePiece, PieceRole
from documents.formats.text import join

#: A table cell up to its end; a pipe after a backslash is part of it.
_CELL = re.compile(r"((?:[^|]++|(?<=\\)\|)*+)(?:\||\Z)")
_ESCAPED_PIPE = re.compile(r"\\\|")


@dataclass(frozen=True)
class Places:
    """Pairs of offsets in a block's content and in the file; between pairs both run in step."""

    inner: Sequence[int]
    outer: Sequence[int]

    def find(self, offset: int) -> int:
        """Return the offset in the file for an offset in the content."""
        index = max(bisect_right(self.inner, offset) - 1, 0)
        return self.outer[index] + offset - self.inner[index]


@dataclass
class Locator:
    """The locator of a file's blocks, which must be located in order."""

    content: str
    #: By line, the remaining cells of table rows.
    cells: dict[int, Iterator[re.Match[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.starts = [line.start() for line in LINE.finditer(self.content)]
        self.lines = [line.rstrip("\r\n") for line in LINE.findall(self.content)]

    def locate(self, block: Token, parent: Token) -> Places | None:
        """Return the places of a block inside its parent, or None if its text is not found."""
        first = block.map[0] if block.map else 0
        if parent.type in ("th_open", "td_open"):
            return self._locate_cell(block.content, first)
        inner, outer, offset = [], [], 0
        for number, part in enumerate(block.content.split("\n"), first):
            line = self.lines[number]
            text = part.strip()
            # The last place, as the words of `!!! note "Note"` may be the same; `rfind`
            # would need quadratic time.
            after = line[::-1].find(text[::-1])
            if after < 0:
                return None
            inner.append(offset + len(part) - len(part.lstrip()))
            outer.append(self.starts[number] + len(line) - after - len(text))
            offset += len(part) + 1
        return Places(inner, outer)

    def _locate_cell(self, text: str, number: int) -> Places | None:
        raw = text.replace("|", r"\|")
        is_first = number not in self.cells
        cells = self.cells.setdefault(number, _CELL.finditer(self.lines[number]))
        if is_first and not raw:
            next(cells)  # an empty first cell follows a pipe
        # A pipe, and marks of lists and quotations, may precede the first cell.
        fits = (each for each in cells if mdTrim(each[1]).endswith(raw))
        cell = next(fits if is_first else cells, None)
        if not text or not cell or (at := cell[1].rfind(raw)) < 0:
            return None
        start = self.starts[number] + cell.start() + at
        pipes = [found.end() for found in _ESCAPED_PIPE.finditer(raw)]
        inner = (end - count for count, end in enumerate(pipes, 1))
        return Places([0, *inner], [start, *(start + end for end in pipes)])


#: A megabyte of text becomes a hundred megabytes of tokens.
_MAX_BYTES = 4 << 20
#: The box of a task.
_TASK = re.compile(r"\[[ xX]\]\s+")
#: Code of Jekyll and Hugo, of which the parser sees only the ends of lines.
_CODE = re.compile(
    r"^[ \t]*+\{[{%][%< -]*highlight\b(?:(?!\{[{%][%< -]*highlight\b)(?s:.))*?"
    r"(?:end|/ *)highlight\b[^\r\n]*",
    re.MULTILINE,
)
#: Lines that CommonMark does not know, and how the parser sees them, in order: those around
#: front matter in TOML; the line above a note or a tab of MkDocs, or a note of Docusaurus, with
#: its title; other lines for programs; the line of a note of GitHub or Obsidian; a definition.
_EXTENSIONS = (
    (r"\A\+{3}(?=\s*$)((?s:.*?)^)\+{3}(?=\s*$)", r"---\1---"),
    (
        r"""^([ \t]*+)(?:(?:!!!|\?\?\?\+?)[ \w-]++|===[!+]*[ ]+(?="))(?:"([^\r\n]*)")?
        [ \t]*+(?=\r?\n\s*?^\1(?:[ ]{4}|\t))""",
        r"\1-   # \2",
    ),
    (r'^([ \t]*+):::+[ ]*[\w-]+[\[ ]([^]=:{"\r\n]*+)\]?[ ]*+(?=\r?$)', r"\1# \2"),
    (
        r"""^[ \t]*+(?: (?: ::: | --8<-- | <<<[ ]@)[^\r\n]*
        | import[ ](?:[^\r\n]*[ ]from[ ])?['"][^\r\n]*['"];? | \([^()\s]+\)=
        | \[\[?_?(?i:TOC)_?\]\]? | \{[ ]?[{%:./#][^{}\r\n]*\}\}? )[ \t]*+(?=\r?$)""",
        "",
    ),
    (r"^([^a-zA-Z\[\r\n]*>[ \t]*)\[![^\[\]\r\n]+\][-+]?\\?(?=\s|\Z)", r"\1#"),
    (r"^([ ]{0,3}):(?=[ \t]+\S)", r"\1-"),
)
#: The place in a written block after a hard line break, until the block is complete.
_NEXT_LINE = "\0"
#: Characters that would begin a list, a heading or a quotation at the start of a line.
_START = re.compile(
    r"(?:\A|\0)\s*(?:\d{1,9}(?=[.)](?:\s|\Z))"
    r"|(?=[-+*](?:\s|\Z)|\#{1,6}(?:\s|\Z)|>|(?:=+|-+|[*_]{3,})\s*?(?:[\r\n\0]|\Z)))"
)
#: Space at the edges of formatted text, next to which a mark would not count as one.
_INNER_SPACE = re.compile(r'(?<!">)((?:<g id="\d+">)+)(\s++)|(?<!\s)(\s++)((?:</g>)+)')
#: The outer side of a mark of emphasis, and the end of code, until the block is complete.
_SIDE = "\ud800"
_SIDED = re.compile(rf"{_SIDE}[*_~]+|(?<![*_~])[*_~]++{_SIDE}")
#: An underscore that is part of a word, where only an asterisk counts as a mark.
_TIGHT = re.compile(
    rf"(?<=[^\s!-/:-@\[-`{{-~]){_SIDE}_|_{_SIDE}(?=[^\s!-/:-@\[-`{{-~])"
)
#: Marks, and the characters outside and inside of them, or the other way round.
_EDGE = re.compile(
    rf"(?<=(\S))(?:{_SIDE}[*_~]+)+(?=(.))|(?<=([^*_~]))(?:[*_~]++{_SIDE})+(?=(\S))"
)
#: An image's text without any markup.
_PLAIN = re.compile(r"[^\[\]\\*_`<&!\n]*")
_PAIRS = {
    f"{name}_{end}": role
    for name in ("em", "strong", "s", "link", "wiki")
    for end, role in (("open", PieceRole.OPENING), ("close", PieceRole.CLOSING))
}

#: The link of a wiki; if it has a text of its own, only what is around that.
_WIKI_LINK = re.compile(
    r"(?P<wiki_open>!?\[\[[^][|\n]+\|(?=[^][\n]+\]\](?![(\[])))"
    r"|(?P<wiki_link>!?\[\[[^][|\n]+\]\](?![(\[]))|(?P<wiki_close>\]\])"
)
#: CommonMark allows labels of this length.
_LABEL = re.compile(r"\[\^[^\]\s]{1,999}\]")
_MAX_TITLE_LINES = 100

Rule = Callable[[StateInline, bool], bool]


def make_parser() -> MarkdownIt:
    """Make a parser for CommonMark, tables, strikethrough, footnotes, formulas and front
    matter. It leaves the inline content of blocks to `parser.inline`, whose markup tokens have
    their `span` in that content."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.use(front_matter_plugin)
    parser.use(footnote_plugin, inline=False, move_to_end=False)
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False)
    parser.core.ruler.disable(["inline", "text_join"])
    parser.inline.ruler.before("link", "wiki_link", _read_wiki_link)
    for name in parser.inline.ruler.get_active_rules():
        rule = next(r.fn for r in parser.inline.ruler.__rules__ if r.name == name)
        rule = partial(_BOUNDS[name], rule) if name in _BOUNDS else rule
        parser.inline.ruler.at(name, partial(_locate, name, rule))
    parser.block.ruler.at("reference", _bound_reference)
    return parser


def _read_wiki_link(state: StateInline, silent: bool) -> bool:
    found = _WIKI_LINK.match(state.src, state.pos, state.posMax)
    place = state.src, state.pos
    # Other `]]`, as in `f(a[, b[, c]])`, end no link.
    if not found or (found["wiki_close"] and state.env.get("wiki_end") != place):
        return False
    if found["wiki_open"]:
        state.env["wiki_end"] = state.src, state.src.find("]]", found.end())
    if not silent:
        state.push(str(found.lastgroup), "a", 0)
    state.pos = found.end()
    return True


def _bound_label(rule: Rule, state: StateInline, silent: bool) -> bool:
    """Bound the rule for footnote references, which searches the whole text for each end."""
    is_label = _LABEL.match(state.src, state.pos) is not None
    return is_label and rule(state, silent)


def _bound_comment(rule: Rule, state: StateInline, silent: bool) -> bool:
    """Bound the rule for HTML, which tries many ends of each comment: it ends at the first."""
    if not state.src.startswith("<!--", state.pos):
        return rule(state, silent)
    start = state.pos
    last = state.html_terminator_last("-->")
    end = state.src.find("-->", start + 2) + 3 if last >= start + 2 else 0
    if not start < end <= state.posMax:
        return False
    if not silent:
        state.push("html_inline", "", 0).content = state.src[start:end]
    state.pos = end
    return True


def _bound_reference(state: StateBlock, line: int, *rest: Any) -> bool:
    """Bound the rule for link definitions, which joins all lines that may be their titles."""
    last = state.lineMax
    state.lineMax = min(state.lineMax, line + _MAX_TITLE_LINES)
    try:
        return reference(state, line, *rest)
    finally:
        state.lineMax = last


#: Rules that would need more than time in proportion to the document. Tables may need more
#: memory, as short rows get empty cells: the worker's limit applies.
_BOUNDS = {"footnote_ref": _bound_label, "html_inline": _bound_comment}


def _locate(name: str, rule: Rule, state: StateInline, silent: bool) -> bool:
    """Apply a rule and record the spans of its tokens."""
    start = state.pos
    count = len(state.tokens)
    is_found = rule(state, silent)
    if not is_found or silent or name == "text":
        return is_found
    new = [token for token in state.tokens[count:] if "span" not in token.meta]
    if name in ("emphasis", "strikethrough"):
        # Each token is a mark, but a text token may precede them.
        place = state.pos
        for token in reversed(new):
            token.meta["span"] = place - len(token.content), place
            place -= len(token.content)
    elif name == "link":
        end = parseLinkLabel(state, start, True)
        new = [token for token in new if token.type != "text"]
        new[0].meta["span"] = start, start + 1
        new[-1].meta["span"] = end, state.pos
    elif new:
        new[-1].meta["span"] = start, state.pos
        if name == "image":
            new[-1].meta["image_text"] = start + 2, parseLinkLabel(state, start + 1)
    return True


@dataclass(frozen=True, slots=True)
class _Mark:
    """Markup or a special character, from `start` to `end` of a block's content."""

    start: int
    end: int
    piece: InlinePiece
    #: The span of an image's text, if it has one that can be replaced.
    label: tuple[int, ...] = ()


def find_edits(content: str) -> Iterator[Edit]:
    """Yield the edits of a document, in order."""
    locator = Locator(content)
    parser = make_parser()
    env: dict[str, object] = {}
    read = _CODE.sub(lambda code: re.sub(r"[^\r\n]", "", code[0]), content)
    for pattern, shown in _EXTENSIONS:
        read = re.sub(pattern, shown, read, flags=re.MULTILINE | re.VERBOSE)
    for parent, block in pairwise(parser.parse(read, env)):
        if block.type == "inline" and (places := locator.locate(block, parent)):
            is_cell = parent.type in ("th_open", "td_open")
            children: list[Token] = []
            parser.inline.parse(block.content, parser, env, children)
            found = _Block(content, block.content, children, places, is_cell)
            yield from found.find_edits()


@dataclass(frozen=True)
class _Block:
    content: str
    text: str
    children: Sequence[Token]
    places: Places
    is_cell: bool

    def find_edits(self) -> Iterator[Edit]:
        text = self.text
        task = _TASK.match(self.text)
        place = start = task.end() if task else 0
        pieces: list[InlinePiece] = []
        #: The marks of images with a text, by their indexes in the pieces.
        images: dict[int, _Mark] = {}
        for mark in sorted(self._find_marks(), key=lambda m: (m.start, -m.end)):
            if mark.start >= place:
                pieces += [InlinePiece(text[place : mark.start]), mark.piece]
                if mark.label:
                    images[len(pieces) - 1] = mark
                place = mark.end
        pieces.append(InlinePiece(text[place:]))
        has_sentence = inline.has_text(pieces)
        shown = (text[slice(*mark.label)] for mark in images.values())
        labels = tuple(map(inline.escape, shown))
        texts = (inline.write_fragment(pieces), *labels) if has_sentence else labels
        # The characters that the block writes with a backslash or as an entity.
        escaped = (t.content for t in self.children if t.type == "text_special")
        special = set(string.punctuation).intersection(escaped)
        special |= {"|"} if self.is_cell else set()

        def write(new: Sequence[str], _: str) -> str:
            own = list(pieces)
            translated = new[1:] if has_sentence else new
            for (index, mark), label in zip(images.items(), translated, strict=True):
                own[index] = self._relabel(mark, label, special)
            fragment = new[0] if has_sentence else inline.write_fragment(own)
            fragment = _INNER_SPACE.sub(r"\2\1\4\3", fragment)
            written = inline.read_fragment(
                fragment, own, lambda text: _escape(text, special)
            )
            written = written.replace(f"`{_SIDE}`", "` `").replace(f"`{_SIDE}", "`")
            if _TIGHT.search(written):
                written = _SIDED.sub(lambda mark: mark[0].replace("_", "*"), written)
            written = _EDGE.sub(_set_apart, written).replace(_SIDE, "")
            # A backslash prevents the text from being a list, a heading or a quotation.
            return _START.sub(r"\g<0>\\", written).replace(_NEXT_LINE, "")

        if texts:
            first, last = self.places.find(start), self.places.find(len(text))
            yield Edit(first, last, texts, write)

    def _raw(self, start: int, end: int) -> str:
        return self.content[self.places.find(start) : self.places.find(end)]

    def _relabel(self, mark: _Mark, label: str, special: set[str]) -> InlinePiece:
        first, last = mark.label
        before, after = self._raw(mark.start, first), self._raw(last, mark.end)
        escaped = _escape(unescape(label), special.union("[]\\"))
        return InlinePiece(before + escaped + after, PieceRole.ALONE)

    def _find_marks(self) -> Iterator[_Mark]:
        opened = [0]
        last = 0
        #: The starts of open elements that stay, such as code, by name.
        kept = defaultdict[str, list[int]](list)
        for token in self.children:
            start, end = token.meta.get("span", (0, 0))
            if not end or token.type == "text":
                continue
            width = len(token.markup) - 1 if token.type.startswith("strong_") else 0
            if token.type == "strong_open":
                start -= width
            elif token.type == "strong_close":
                end += width
            elif token.type == "link_open":
                opened.append(end)
            elif token.type in ("hardbreak", "softbreak"):
                while start > last and self.text[start - 1] == " ":
                    start -= 1
            elif token.type == "html_inline":
                tag = next(scan(token.content))
                own = kept[tag.name]
                if tag.is_start and (tag.is_kept or own) and not tag.is_empty:
                    own.append(start)
                elif not tag.is_start and own:
                    start = own.pop()
            last = end
            label = opened.pop() if token.type == "link_close" and opened else 0
            image = token.meta.get("image_text", (0, 0))
            shown = self.text[slice(*image)]
            is_plain = _PLAIN.fullmatch(shown) and has_letter(shown)
            piece = self._make_piece(token, start, end, label)
            yield _Mark(start, end, piece, image if is_plain else ())

    def _make_piece(
        self, token: Token, start: int, end: int, label: int
    ) -> InlinePiece:
        if token.type == "text_special":
            return InlinePiece(token.content)
        if token.type == "softbreak":
            beside = [self.text[max(start - 1, 0) : start], self.text[end : end + 1]]
            return InlinePiece(join(beside)[1:-1])
        raw = self._raw(start, end)
        if token.type == "hardbreak":
            return InlinePiece(raw + _NEXT_LINE, PieceRole.ALONE)
        role = _PAIRS.get(token.type)
        if token.type == "html_inline":
            return inline.read_tag(raw)
        if token.type == "code_inline":
            raw += _SIDE  # the marks of two pieces of code must not join
        if role is None or token.markup == "autolink":
            return InlinePiece(raw, PieceRole.ALONE)
        if token.type == "link_close" and raw in ("]", "][]"):
            # The link's text was the label of its definition.
            raw = f"][{' '.join(self.text[label:start].split())}]"
        elif token.tag != "a":
            raw = _SIDE + raw if role is PieceRole.OPENING else raw + _SIDE
        return InlinePiece(raw, role, token.tag)


def _set_apart(found: re.Match[str]) -> str:
    """Return marks with a space on their outer side if, between a letter there and punctuation
    inside, they would not count: as in languages without spaces between words."""
    outer, inner = (category(found[1] or found[4]), category(found[2] or found[3]))
    is_lost = inner[0] in "PS" and outer[0] not in "PS"
    space = " " if is_lost else ""
    return space + found[0] if found[1] else found[0] + space


def _escape(text: str, special: set[str]) -> str:
    """Return text on one line, with a backslash before the characters in `special`."""
    text = " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
    return "".join(f"\\{c}" if c in special else c for c in text)


_FIND_PARTS = read_whole(find_edits, max_bytes=_MAX_BYTES)
FORMAT = make_format((".md", ".markdown"), "text/markdown", "xml", _FIND_PARTS)
