"""Cuts HTML and XML into tokens, for the gateway and for documents. The joined tokens equal the
text, so changing one leaves the others as they were."""

import html
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

#: Elements that are part of a sentence (HTML Living Standard, 4.5, 4.7 and 4.8.16, MathML).
INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark math
    q rb rp rt rtc ruby s samp small span strike strong sub sup svg time tt u var wbr""".split()
)
#: Elements whose content is not natural language.
_OPAQUE = frozenset(
    "code kbd math noscript pre samp script style svg template textarea tt".split()
)

#: Elements whose empty tags `<svg/>` are complete in HTML too.
_FOREIGN = frozenset(("math", "svg"))
#: The reading of a word is shown above it, and is not part of its sentence.
_READINGS = frozenset(("rt", "rp", "rtc"))
_RUBY = _READINGS | {"ruby", "rb"}
#: Elements without content and without an end tag.
VOID = frozenset(
    """area base br col embed hr img input link meta param source track wbr""".split()
)
#: The start tags before which the end tag of an element may be omitted (13.1.2.4).
_ENDED_BY: Mapping[str, Collection[str]] = {
    "p": frozenset(
        """address article aside blockquote dd details dialog div dl dt fieldset figcaption
        figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr li main menu nav ol p pre search
        section table tbody td tfoot th tr ul""".split()
    ),
    **dict.fromkeys(("dd", "dt"), ("dd", "dt")),
    **dict.fromkeys(("td", "th"), ("tbody", "td", "tfoot", "th", "tr")),
    **dict.fromkeys(("tbody", "tfoot", "thead"), ("tbody", "tfoot")),
    "li": ("li",),
    "optgroup": ("optgroup",),
    "option": ("optgroup", "option"),
    "tr": ("tbody", "tfoot", "tr"),
}
#: The start of a tag, a comment, a declaration or an instruction.
_MARKUP = re.compile(r"<[a-zA-Z/!?]")
_XML_MARKUP = re.compile(r"<(?:[^\W\d]|[/!?:])")
_NAME = re.compile(r"</?([a-zA-Z][^\t\n\r\f />]*+)")
_XML_NAME = re.compile(r"</?((?:[^\W\d]|:)[^\t\n\r />]*+)")
#: A tag ends at the first `>` outside quoted values.
_TAG = re.compile(r"""<(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+>""")
#: An attribute of a tag: its name, and its value in one of three kinds of quotes.
ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]++)\s*+(?:=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]++)))?"""
)
#: Elements that contain raw text, and the patterns that end them.
_RAW = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea")
}
#: Comments end in more ways in HTML.
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
_XML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
#: The declaration of an XML document, with those in its brackets.
_DOCTYPE = re.compile(
    r"""<!DOCTYPE (?:[^"'\[>]++|"[^"]*+"|'[^']*+')*
    (?:\[ (?:[^]"'<]++|"[^"]*+"|'[^']*+'|(?><!--.*?-->|<\?.*?\?>|<(?!!--|\?)))* \]\s*+)? >""",
    re.DOTALL | re.VERBOSE,
)
#: A numeric character reference that is too long to be valid.
_ENDLESS_NUMBER = re.compile(r"&#\d{100,}+;?")


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
        """Whether it is an empty-element tag of XML."""
        return self.raw.endswith("/>")


def scan(source: str, *, is_xml: bool = False) -> Iterator[Token]:
    """Yield the tokens of a document in one pass. Joined, they equal the document: end tags
    omitted in an element that is kept are empty tokens."""
    reader = _Reader(source, is_xml)
    start = 0
    opened = list[str]()
    begins = _XML_MARKUP if is_xml else _MARKUP
    while found := begins.search(source, start):
        place = found.start()
        if start < place:
            yield Token(source[start:place], is_text=True)
        token = reader.read(place)
        if opened or (token.is_kept and token.name in _ENDED_BY and not is_xml):
            yield from _end_before(token, opened)
        yield token
        start = place + len(token.raw)
        if token.is_start and token.name in _RAW and not is_xml:
            closing = _RAW[token.name].search(source, start)
            end = closing.start() if closing else len(source)
            yield Token(source[start:end])
            start = end
    if start < len(source):
        yield Token(source[start:], is_text=True)


def _end_before(token: Token, opened: list[str]) -> Iterator[Token]:
    """Yield the end tags omitted before a token, and update the names of `opened` elements."""
    if not token.name or token.name in INLINE:
        return
    if token.is_start:
        while opened and token.name in _ENDED_BY.get(opened[-1], ()):
            yield Token("", opened.pop())
        is_open = token.is_kept or (opened and not token.is_empty)  # as many in SVG
        if is_open and token.name not in VOID:
            opened.append(token.name)
    # A browser reads any other `</p>` as an empty paragraph.
    elif token.name != "p" or "p" in (opened[0], opened[-1]):
        while opened and (name := opened.pop()) != token.name:
            yield Token("", name)


class _Reader:
    """A reader of tags, comments and the like. It stores the last position of each end mark,
    so it never searches the rest of the source for a missing one."""

    def __init__(self, source: str, is_xml: bool) -> None:
        self._source = source
        self._is_xml = self._may_declare = is_xml
        self._last = {sign: source.rfind(sign) for sign in (">", "]]>")}
        self._has_quotes = True

    def read(self, start: int) -> Token:
        """Return the token that begins with the `<` at `start`."""
        source = self._source
        if source.startswith("<!--", start):
            comment = (_XML_COMMENT if self._is_xml else _COMMENT).match(source, start)
            return Token(comment[0] if comment else source[start:])
        if self._is_xml and source.startswith("<?", start):
            return Token(source[start : self._find_end("?>", start)])
        if start > self._last[">"]:
            return Token(source[start:], is_text=True)
        if self._may_declare and source.startswith("<!DOCTYPE", start):
            self._may_declare = False  # a document has only one
            if found := _DOCTYPE.match(source, start):
                return Token(found[0])
        if source.startswith("<![CDATA[", start) and start < self._last["]]>"]:
            return Token(source[start : self._find_end("]]>", start)])
        named = (_XML_NAME if self._is_xml else _NAME).match(source, start)
        name = named[1] if named else ""
        name = name if self._is_xml else name.lower()
        if not name or source.startswith("</", start):
            return Token(source[start : self._find_end(">", start)], name)
        return self._read_start(start, name)

    def _read_start(self, start: int, name: str) -> Token:
        """Read a start tag. If every later `>` is inside quotes, this tag and all later ones
        end at the first `>`: checking each tag would mean reading the rest each time."""
        tag = _TAG.match(self._source, start) if self._has_quotes else None
        self._has_quotes = tag is not None
        raw = tag[0] if tag else self._source[start : self._find_end(">", start)]
        is_opaque = name in _OPAQUE and not self._is_xml
        return Token(raw, name, True, is_kept=is_opaque or is_refused(raw))

    def _find_end(self, sign: str, start: int) -> int:
        """Return the end of the next `sign`, or of the source."""
        place = self._source.find(sign, start)
        return place + len(sign) if place >= 0 else len(self._source)


def is_refused(tag: str) -> bool:
    """Whether a tag excludes its element from translation."""
    if "translate" not in tag.lower():
        return False
    given = {name.lower(): "".join(values) for name, *values in ATTRIBUTE.findall(tag)}
    is_no = given.get("translate", "").lower() == "no"
    return is_no or "notranslate" in given.get("class", "").split()


def take_element(first: Token, rest: Iterator[Token], *, is_xml: bool = False) -> str:
    """Return the element that `first` begins, up to the source's end if it is not closed."""
    has_empty = is_xml or first.name in _FOREIGN
    raw = [first.raw]
    depth = 0 if has_empty and first.is_empty else 1
    while depth and (token := next(rest, None)):
        raw.append(token.raw)
        if token.name == first.name and not (has_empty and token.is_empty):
            depth += 1 if token.is_start else -1
    return "".join(raw)


def find_ruby(tokens: Iterable[Token]) -> Iterator[tuple[Token, bool]]:
    """Yield each token, and whether it is a tag of ruby text, unless its element is kept, or
    belongs to a reading."""
    is_reading = False
    for token in tokens:
        is_tag = token.name in _RUBY
        if is_tag:
            is_reading = token.is_start and token.name in _READINGS
        elif token.name and token.name not in INLINE:
            is_reading = False
        yield token, is_reading or (is_tag and not token.is_kept)


def unescape(text: str) -> str:
    """Return text of HTML or XML with its character references decoded."""
    return html.unescape(_ENDLESS_NUMBER.sub("\ufffd", text))
