"""Reads HTML as runs of text with placeholders, and both HTML and XML as tokens. Every
character of the input is in exactly one run, so untranslated parts are preserved exactly.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.schemas import HTML_TAGS, Tags
from gateway.text.placeholders import Placeholder, Role

#: Elements that are part of a sentence (HTML Living Standard, 4.5 and 4.7).
_INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q
    s samp small span strike strong sub sup time tt u var wbr""".split()
)
#: Elements whose content is not natural language.
_OPAQUE = frozenset(
    "code kbd math noscript pre samp script style svg template textarea tt".split()
)

_VOID = frozenset(
    """area base br col embed hr img input link meta param source track wbr""".split()
)
#: The start of a tag, a comment, a declaration or an instruction.
_MARKUP = re.compile(r"<[a-zA-Z/!?]")
_XML_MARKUP = re.compile(r"<(?:[^\W\d]|[/!?:])")
_NAME = re.compile(r"</?([a-zA-Z][^\t\n\r\f />]*+)")
_XML_NAME = re.compile(r"</?((?:[^\W\d]|:)[^\t\n\r />]*+)")
#: A tag ends at the first `>` outside quoted values.
_TAG = re.compile(r"""<(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+>""")
#: A tag for those who only count: `>` in quoted values ends it as well.
_PLAIN_TAG = re.compile(r"<[^\s\d<>=][^<>]*+>")
_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]++)\s*+(?:=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]++)))?+"""
)
#: Elements that contain raw text, and what ends them.
_RAW = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style")
}
#: A character number that is too long to be valid.
_ENDLESS_NUMBER = re.compile(r"&#\d{100,}+;?")


@dataclass(frozen=True)
class Run:
    """A stretch of text with inline tags as placeholders. Where it `is_markup` it is kept."""

    text: str
    placeholders: tuple[Placeholder, ...] = ()
    is_markup: bool = False


def parse(source: str, tags: Tags = HTML_TAGS) -> list[Run]:
    """The runs of an HTML document or fragment, in order.

    Text is unescaped; `escape` reverses that. Nothing is refused: like a browser, the reader
    keeps bad HTML as markup or takes it for text.
    """
    inline = _INLINE.union(tags.inline).difference(tags.splitting)
    builder = Builder()
    tokens = scan(source)
    for token in tokens:
        is_ignored = token.is_start and token.name in tags.ignored
        is_kept = token.is_kept or is_ignored
        is_empty = token.name in _VOID or (is_ignored and token.is_empty)
        raw = take_element(token, tokens) if is_kept and not is_empty else token.raw
        if token.is_text:
            builder.add_text(_unescape(raw))
        elif token.name not in inline:
            builder.add_markup(raw)
        elif is_kept:
            builder.add_placeholder(raw, Role.WORD)
        elif is_empty:
            builder.add_placeholder(raw, Role.LOOSE)
        else:
            builder.add_placeholder(
                raw, Role.OPENING if token.is_start else Role.CLOSING
            )
    return builder.finish()


def strip(source: str) -> str:
    """What a person reads of a text, roughly, for the start of a long one."""
    return _unescape(_PLAIN_TAG.sub(" ", source))


def count_characters(source: str, tags: Tags | None) -> int:
    """The characters of a text as DeepL counts them: code points, without those of tags."""
    if tags is None:
        return len(source)
    return len(source) - sum(map(len, _PLAIN_TAG.findall(source)))


def escape(text: str) -> str:
    """Text in the form that HTML needs."""
    return html.escape(text, quote=False).replace("\u00a0", "&nbsp;")


def show(source: str) -> str:
    """What a reader sees of a piece of HTML, with `<br>` as a line break."""
    shown = (
        "\n" if t.name == "br" else t.raw if t.is_text else "" for t in scan(source)
    )
    return _unescape("".join(shown))


@dataclass(frozen=True, slots=True)
class Token:
    """One tag, comment or piece of text. `name` is empty unless it is a tag."""

    raw: str
    name: str = ""
    is_start: bool = False
    is_text: bool = False
    is_kept: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it is an element of XML without content."""
        return self.raw.endswith("/>")


def scan(source: str, *, is_xml: bool = False) -> Iterator[Token]:
    """The tokens of a document in one pass. Joined, they are the document."""
    reader, start = _Reader(source, is_xml), 0
    begins = _XML_MARKUP if is_xml else _MARKUP
    while found := begins.search(source, start):
        place = found.start()
        if start < place:
            yield Token(source[start:place], is_text=True)
        token = reader.read(place)
        yield token
        start = place + len(token.raw)
        if token.is_start and token.name in _RAW and not is_xml:
            closing = _RAW[token.name].search(source, start)
            end = closing.start() if closing else len(source)
            yield Token(source[start:end])
            start = end
    if start < len(source):
        yield Token(source[start:], is_text=True)


class _Reader:
    """Reads one tag, comment or the like. It knows the last place of each closing sign, so it
    never searches to the source's end for one that is missing."""

    def __init__(self, source: str, is_xml: bool) -> None:
        self._source = source
        self._is_xml = is_xml
        self._last = {sign: source.rfind(sign) for sign in (">", "-->", "]]>")}
        self._has_quotes = True

    def read(self, start: int) -> Token:
        """The token that begins with the `<` at `start`."""
        source = self._source
        if source.startswith("<!--", start):
            return Token(source[start : self._find("-->", start + 2)])
        if start > self._last[">"]:
            return Token(source[start:], is_text=True)
        if source.startswith("<![CDATA[", start) and start < self._last["]]>"]:
            return Token(source[start : self._find("]]>", start)])
        named = (_XML_NAME if self._is_xml else _NAME).match(source, start)
        if not named or source.startswith("</", start):
            name = self._read_name(named[1]) if named else ""
            return Token(source[start : self._find(">", start)], name)
        return self._read_start(start, self._read_name(named[1]))

    def _read_start(self, start: int, name: str) -> Token:
        """If every later `>` is inside quotes, this tag and all later ones end at the first
        `>`: checking that for each tag would mean reading the rest each time."""
        tag = _TAG.match(self._source, start) if self._has_quotes else None
        self._has_quotes = tag is not None
        raw = tag[0] if tag else self._source[start : self._find(">", start)]
        is_opaque = name in _OPAQUE and not self._is_xml
        return Token(raw, name, True, is_kept=is_opaque or _is_kept(raw))

    def _read_name(self, name: str) -> str:
        return name if self._is_xml else name.lower()

    def _find(self, sign: str, start: int) -> int:
        """The end of the next `sign`, or of the source."""
        if start > self._last[sign]:
            return len(self._source)
        return self._source.find(sign, start) + len(sign)


def _is_kept(tag: str) -> bool:
    """Whether a tag says that its element is not to be translated."""
    if "translate" not in tag.lower():
        return False
    given = {name.lower(): "".join(values) for name, *values in _ATTRIBUTE.findall(tag)}
    is_refused = given.get("translate", "").lower() == "no"
    return is_refused or "notranslate" in given.get("class", "").split()


def take_element(first: Token, rest: Iterator[Token], *, is_xml: bool = False) -> str:
    """The element that `first` begins, up to the source's end if nothing closes it."""
    raw, depth = [first.raw], 1
    while depth and (token := next(rest, None)):
        raw.append(token.raw)
        if token.name == first.name and not (is_xml and token.is_empty):
            depth += 1 if token.is_start else -1
    return "".join(raw)


def _unescape(text: str) -> str:
    return html.unescape(_ENDLESS_NUMBER.sub("\ufffd", text))


@dataclass
class Builder:
    """Collects tokens into runs."""

    _runs: list[Run] = field(default_factory=list)
    _markup: list[str] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _length: int = 0
    _placeholders: list[Placeholder] = field(default_factory=list)

    def add_text(self, text: str) -> None:
        """Text, without its escapes."""
        self._end_markup()
        self._texts.append(text)
        self._length += len(text)

    def add_placeholder(self, shown: str, role: Role) -> None:
        """A tag or an element inside a sentence."""
        self._end_markup()
        self._placeholders.append(Placeholder(self._length, self._length, shown, role))

    def add_markup(self, raw: str) -> None:
        """Markup between sentences."""
        self._end_text()
        self._markup.append(raw)

    def finish(self) -> list[Run]:
        """All runs."""
        self._end_text()
        self._end_markup()
        return self._runs

    def _end_text(self) -> None:
        if self._texts or self._placeholders:
            self._runs.append(Run("".join(self._texts), tuple(self._placeholders)))
            self._texts, self._length, self._placeholders = [], 0, []

    def _end_markup(self) -> None:
        if self._markup:
            self._runs.append(Run("".join(self._markup), is_markup=True))
            self._markup = []
