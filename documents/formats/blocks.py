"""Splits a part of a document into blocks, such as paragraphs, and the bytes between them. Only
one block at a time is kept in memory and parsed; the rest passes through byte for byte.
"""

import codecs
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html.entities import name2codepoint
from typing import IO, NoReturn, TypeAlias
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from lxml import etree

from documents.errors import (
    DamagedDocument,
    DocumentError,
    DocumentTooLarge,
    RefusedContent,
)
from documents.formats.fragments import Element, Slot, find_plain_slots, shorten

#: The maximum size of a paragraph, or of a chapter of a book.
MAX_BLOCK_BYTES = 16 << 20
#: Documents from real programs have less than a hundred levels.
MAX_DEPTH = 200
#: The maximum number of elements in a block, attributes of an element and characters in a
#: namespace's name. A large chapter has tens of thousands of elements.
MAX_ELEMENTS, _MAX_ATTRIBUTES, _MAX_URI = 250_000, 4_000, 1_000
_CHUNK_BYTES = 1 << 16
_TAG = re.compile(r"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*>""")
#: An entity; in a section, a comment or an instruction, `&` is only a character. A parsed block
#: has the end of each, so the search is linear.
_ENTITY = re.compile(r"(?s)<!\[CDATA\[.*?\]\]>|<!--.*?-->|<\?.*?\?>|&(\w+);")
#: The prefix of an element or attribute.
_PREFIX = re.compile(r"""[\s</]([^\s<>/:="'&]++):""")
#: The XML encodings that expat reads, under Python's names.
_ENCODINGS = {"utf-8", "utf-16", "ascii", "iso8859-1"}

Attributes: TypeAlias = Mapping[str, str]
FindSlots: TypeAlias = Callable[[Element], list[Slot]]


@dataclass(frozen=True)
class ElementNames:
    """The short names, such as `w:p`, of the elements that contain a part's texts."""

    #: The outermost of these elements are the blocks.
    blocks: frozenset[str]
    #: Returns the texts of a block, in order. It must not change the block.
    find_slots: FindSlots
    #: Whether to skip an element with all its content, given its name and attributes.
    is_skipped: Callable[[str, Attributes], bool] = lambda name, attributes: False
    #: Makes final changes to a translated block, and returns whether there were any.
    finish: Callable[[Element, str], bool] = lambda wrapper, language: False


#: The titles of documents.
TITLE = ElementNames(
    frozenset({"dc:title"}), lambda wrapper: find_plain_slots(wrapper[0])
)


@dataclass
class Block:
    """The bytes of an element, parsed on demand."""

    raw: bytes
    encoding: str
    #: The namespaces declared around the block, by prefix.
    namespaces: Mapping[str, str]
    where: str

    def parse(self) -> Element:
        """Return a wrapper element that contains the block and declares its namespaces."""
        text = _ENTITY.sub(_replace_entity, self.raw.decode(self.encoding))
        used = {"", *_PREFIX.findall(text)}
        declared = "".join(
            f" xmlns{':' if prefix else ''}{prefix}={quoteattr(self.namespaces[prefix])}"
            for prefix in used
            if prefix in self.namespaces
        )
        wrapped = f"<block{declared}>{text}</block>".encode()
        # lxml's own defaults: it opens no file, and bounds depth and text.
        parser = etree.XMLParser(resolve_entities=False, strip_cdata=False)
        try:
            return etree.fromstring(wrapped, parser)
        except etree.XMLSyntaxError as error:
            reason = str(error.msg).partition(", line ")[0].strip()
            raise DamagedDocument(f"{self.where}: {reason}") from error

    def serialize(self, wrapper: Element) -> bytes:
        """Return the bytes of a parsed block, without the wrapper."""
        text = etree.tostring(wrapper, encoding="unicode")
        inner = text[text.index(">") + 1 : text.rindex("</")]
        return inner.encode(self.encoding, "xmlcharrefreplace")


def _replace_entity(match: re.Match[str]) -> str:
    """Return the numeric form of HTML's named entities, which a book may use."""
    code = name2codepoint.get(match[1])
    return f"&#{code};" if code else match[0]


def split(
    part: IO[bytes], vocabulary: ElementNames, where: str
) -> Iterator[bytes | Block]:
    """Yield the bytes of a part in order, each block as a Block. Raises DamagedDocument if the
    part is not well-formed, RefusedContent if it declares entities or is nested too deep, and
    DocumentTooLarge if a block is too large."""
    splitter = _Splitter(vocabulary, where)
    chunk = b"-"
    while chunk:
        splitter.feed(chunk := part.read(_CHUNK_BYTES))
        if splitter.block_start is None:
            splitter.flush(splitter.safe)
        yield from splitter.ready
        splitter.ready.clear()
    yield bytes(splitter.buffer)


@dataclass
class _Splitter:
    vocabulary: ElementNames
    where: str
    #: The bytes that are not yet ready. The first one has the offset `start` in the part.
    buffer: bytearray = field(default_factory=bytearray)
    start: int = 0
    #: The offset of the open block, or None.
    block_start: int | None = None
    #: The depth of the skipped element or open block, or None.
    inside: int | None = None
    depth: int = 0
    encoding: str = "utf-8"
    #: The namespaces that each open element declares.
    scopes: list[dict[str, str]] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    #: The number of elements in the open block.
    elements: int = 0
    #: The offset up to which all bytes are known to be outside of a block.
    safe: int = 0
    ready: list[bytes | Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        parser = expat.ParserCreate(namespace_separator="}")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartNamespaceDeclHandler = self._declare
        parser.XmlDeclHandler = self._check_declaration
        parser.StartDoctypeDeclHandler = self._check_doctype
        parser.EntityDeclHandler = lambda *_: self._refuse("declares an entity")
        parser.buffer_text = True
        self.parser = parser

    def _refuse(
        self, said: str, error: type[DocumentError] = RefusedContent
    ) -> NoReturn:
        raise error(f"{self.where}: {said}")

    def feed(self, chunk: bytes) -> None:
        """Parse the next chunk; an empty chunk is the end."""
        if not self.start and not self.buffer:
            self._check_mark(chunk)
        self.buffer += chunk
        try:
            self.parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise DamagedDocument(
                f"{self.where}, line {error.lineno}: not well-formed XML: {reason}"
            ) from error
        if len(self.buffer) > MAX_BLOCK_BYTES:
            said = f"a paragraph or chapter has more than {MAX_BLOCK_BYTES >> 20} MiB"
            self._refuse(said, DocumentTooLarge)

    def flush(self, end: int) -> None:
        if end > self.start:
            self.ready.append(self._cut(end))

    def _cut(self, end: int) -> bytes:
        cut = bytes(self.buffer[: end - self.start])
        del self.buffer[: end - self.start]
        self.start = end
        return cut

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._refuse(f"elements are nested more than {MAX_DEPTH} deep")
        if len(attributes) > _MAX_ATTRIBUTES:
            self._refuse(f"an element has more than {_MAX_ATTRIBUTES:,} attributes")
        self.elements += 1
        if self.block_start is None:
            self.safe, self.elements = self.parser.CurrentByteIndex, 0
        elif self.elements > MAX_ELEMENTS:
            said = f"a paragraph or chapter has more than {MAX_ELEMENTS:,} elements"
            self._refuse(said, DocumentTooLarge)
        if self.inside is not None:
            return
        short = shorten(name)
        if self.vocabulary.is_skipped(short, attributes):
            self.inside = self.depth
        elif short in self.vocabulary.blocks:
            self.inside = self.depth
            self.block_start = self.safe
            self.flush(self.safe)
        if self.inside is None:
            self.scopes.append(self.declared)
        self.declared = {}

    def _end(self, name: str) -> None:
        if self.inside is None:
            self.scopes.pop()
        elif self.inside == self.depth:
            self.inside = None
            if self.block_start is not None:
                self._finish_block()
        self.depth -= 1

    def _finish_block(self) -> None:
        """Cut the block. expat reports the start of an end tag, but an empty element's end."""
        at = self.parser.CurrentByteIndex
        if not self._is_one_tag(at):
            mark = ">".encode(self.encoding)
            at = self.start + self.buffer.index(mark, at - self.start) + len(mark)
        raw = self._cut(at)
        where = f"{self.where}, line {self.parser.CurrentLineNumber}"
        namespaces = ChainMap(*filter(None, reversed(self.scopes)))
        self.ready.append(Block(raw, self.encoding, namespaces, where))
        self.block_start = None
        self.safe = at

    def _is_one_tag(self, end: int) -> bool:
        """Whether the block up to an offset is a single tag."""
        tag_end = "/>".encode(self.encoding)
        if not self.buffer.endswith(tag_end, 0, end - self.start):
            return False
        text = self.buffer[: end - self.start].decode(self.encoding)
        return _TAG.fullmatch(text) is not None

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        if len(uri or "") > _MAX_URI:
            self._refuse(f"a namespace has more than {_MAX_URI:,} characters")
        if self.inside is None:
            self.declared[prefix or ""] = uri or ""

    def _check_mark(self, chunk: bytes) -> None:
        """Find the byte order of UTF-16 by its mark or its first character."""
        for mark, name in (
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (b"<\0", "utf-16-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
            (b"\0<", "utf-16-be"),
        ):
            if chunk.startswith(mark):
                self.encoding = name

    def _check_declaration(self, version: str, encoding: str | None, _: int) -> None:
        if not encoding:
            return
        try:
            name = codecs.lookup(encoding).name
        except LookupError:
            name = encoding
        if name not in _ENCODINGS:
            said = f"the encoding {encoding[:20]!r} is not supported"
            self._refuse(f"{said}: expected UTF-8 or UTF-16", DamagedDocument)
        if not name.startswith("utf-16"):
            self.encoding = name

    def _check_doctype(
        self, name: str, system: str | None, public: str | None, _: int
    ) -> None:
        if system and not public:
            self._refuse("refers to an external DTD")
