"""Documents that are zip files: opened within strict limits, read member by member, and written
again with the same members in the same order.
"""

import mmap
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO, TypeAlias

from documents.errors import (
    DamagedDocument,
    DocumentTooLarge,
    EncryptedDocument,
    RefusedContent,
)
from documents.formats.blocks import Attributes, Block, ElementNames, split
from documents.formats.format import LOST_READINGS, Ask, DocumentContext, Format
from documents.formats.fragments import Element, Slot, shorten

#: A presentation of 500 slides has 3,000, a book with many pictures 10,000.
MAX_MEMBERS = 20_000
#: The characters of a member's name.
_MAX_NAME = 1_000
#: The unpacked bytes of all members: always allowed, even in a small file, and the maximum.
_MIN_UNPACKED_BYTES, MAX_UNPACKED_BYTES = 64 << 20, 2_000_000_000
#: Unpacked bytes per byte of the file; the tables of real spreadsheets reach 50.
MAX_RATIO = 200
#: The bytes to write per unpacked byte of the original, and those allowed in addition.
_MAX_GROWTH, _MIN_WRITTEN_BYTES = 8, 16 << 20
#: Members with signatures: by Office, by .NET's library, and in OpenDocument and books.
_SIGNATURE = re.compile(
    r"_xmlsignatures/|package/services/digital-signature/"
    r"|META-INF/(?:document)?signatures\.xml"
)
#: A word with its reading, in Word, OpenDocument and books, and in spreadsheets.
_READING = re.compile(rb"<(?:\w+:)?(?:ruby|rPh)[\s>]")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_COPY_BYTES = 1 << 20
_IS_ENCRYPTED = 0x1
#: The errors that zipfile raises for a file that contradicts its headers.
_DAMAGES = (
    zipfile.BadZipFile, zlib.error, EOFError,
    NotImplementedError, UnicodeDecodeError, struct.error,
)  # fmt: skip

#: Returns a package's members with texts, and the names of their elements. Raises DocumentError
#: if the package is of another kind, encrypted or refused.
Plan: TypeAlias = Callable[["Package"], Mapping[str, ElementNames]]


class Package(zipfile.ZipFile):
    """An open zip file within the limits."""

    def has(self, name: str) -> bool:
        return name in self.NameToInfo

    def check_type(self, expected: str) -> None:
        """Raise DamagedDocument unless the member `mimetype` has this media type."""
        if self.has("mimetype"):
            with self._unpack("mimetype") as part:
                if part.read(100).strip() == expected.encode():
                    return
        raise DamagedDocument(f"The extension seems wrong: no mimetype {expected}")

    def list_elements(self, name: str, wanted: str) -> Iterator[Element]:
        """Yield a member's outermost elements with a short name. Raises DamagedDocument if the
        member is missing."""
        for piece in self.split(name, ElementNames(frozenset({wanted}), lambda _: [])):
            if isinstance(piece, Block):
                yield piece.parse()[0]

    def list_values(self, name: str, wanted: str, attribute: str) -> set[str]:
        """Return a member's values of an attribute, given its short name and its element's."""
        values = set[str]()

        def note(element: str, attributes: Attributes) -> bool:
            if element == wanted:
                given = {shorten(name): value for name, value in attributes.items()}
                values.add(given.get(attribute, ""))
            return False

        for _ in self.split(name, ElementNames(frozenset(), lambda _: [], note)):
            pass
        return values

    def split(self, name: str, vocabulary: ElementNames) -> Iterator[bytes | Block]:
        """Yield the blocks of a member, and the bytes between them."""
        if not self.has(name):
            raise DamagedDocument(f"{name} is missing")
        with self._unpack(name) as part:
            yield from split(part, vocabulary, name)

    @contextmanager
    def _unpack(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with self.open(name) as part:
                yield part
        except _DAMAGES as error:
            raise DamagedDocument(f"{name} cannot be unpacked: {error}") from error

    def list_chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a member."""
        with self._unpack(name) as part:
            while chunk := part.read(_COPY_BYTES):
                yield chunk


@contextmanager
def open_package(path: Path) -> Iterator[Package]:
    """Open a zip file. Raises EncryptedDocument, DamagedDocument, and RefusedContent or
    DocumentTooLarge if it exceeds a limit."""
    with path.open("rb") as file:
        _check_start(file)
        try:
            package = Package(file, metadata_encoding="utf-8")
        except _DAMAGES as error:
            raise DamagedDocument(f"The zip file is damaged: {error}") from error
        with package:
            _check_members(package.infolist(), path.stat().st_size)
            yield package


def _check_start(file: BinaryIO) -> None:
    start = file.read(8)
    if start.startswith(b"PK"):
        return
    if start != _OLE:
        raise DamagedDocument("Not an office document: it is not a zip file")
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find("EncryptedPackage".encode("utf-16-le")) >= 0:
            raise EncryptedDocument
    raise DamagedDocument(
        "A binary Office document from before 2007: save it as .docx, .xlsx or .pptx"
    )


def _check_members(members: list[zipfile.ZipInfo], file_bytes: int) -> None:
    if len(members) > MAX_MEMBERS:
        raise DocumentTooLarge(
            f"The document has {len(members)} parts: expected at most {MAX_MEMBERS}"
        )
    names: set[str] = set()
    for member in members:
        _check_member(member, names)
    unpacked = sum(member.file_size for member in members)
    allowed = max(_MIN_UNPACKED_BYTES, MAX_RATIO * file_bytes)
    if unpacked > min(allowed, MAX_UNPACKED_BYTES):
        raise RefusedContent(
            f"The document unpacks from {file_bytes} bytes to {unpacked}: a zip bomb"
        )


def _check_member(member: zipfile.ZipInfo, names: set[str]) -> None:
    name = member.filename
    if len(name) > _MAX_NAME:
        raise RefusedContent(f"{name[:40]}… is longer than {_MAX_NAME:,} characters")
    if name in names:
        raise RefusedContent(f"The zip file has two members with the name {name}")
    names.add(name)
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        raise RefusedContent("The zip file has a member outside its folder")
    if member.flag_bits & _IS_ENCRYPTED:
        raise EncryptedDocument
    if member.header_offset < 0:
        raise DamagedDocument(f"The zip file is damaged: {name} has no valid offset")
    if member.compress_type not in _METHODS:
        message = f"{name} is compressed with method {member.compress_type}"
        raise DamagedDocument(f"{message}: expected 0 or 8 (deflate)")


def _group(slots: list[Slot]) -> dict[str, list[Slot]]:
    """Group the slots of a block by text: a text box is stored once per kind of reader, but its
    text is translated once."""
    grouped: dict[str, list[Slot]] = {}
    for slot in slots:
        grouped.setdefault(slot.text, []).append(slot)
    return grouped


def make_package_format(suffix: str, media_type: str, plan: Plan) -> Format:
    """Make the format of a kind of package. The other members keep their contents."""

    def translate(
        source: Path, ask: Ask, target: Path | None, context: DocumentContext
    ) -> None:
        with open_package(source) as package:
            vocabularies = plan(package)
            contents = {name: package.list_chunks(name) for name in package.namelist()}
            for name in contents.keys() & vocabularies.keys():
                pieces = package.split(name, vocabularies[name])
                contents[name] = _translate(pieces, vocabularies[name], ask, context)
            if any(map(_SIGNATURE.match, contents)):
                context.warn("The signature is not valid for the translation.")
            if target:
                with zipfile.ZipFile(target, "x") as out:
                    _write_package(package, contents, out)
            for _ in chain.from_iterable(contents.values()):
                pass  # a document that is only read

    return Format((suffix,), media_type, "xml", translate)


def _write_package(
    package: Package, contents: Mapping[str, Iterator[bytes]], out: zipfile.ZipFile
) -> None:
    out.comment = package.comment
    unpacked = sum(member.file_size for member in package.infolist())
    left = min(_MIN_WRITTEN_BYTES + _MAX_GROWTH * unpacked, MAX_UNPACKED_BYTES)
    for member in package.infolist():
        described = copy(member)
        described.extra = b""  # it may repeat the sizes of the original
        with out.open(described, "w") as part:
            for piece in contents[member.filename]:
                left -= part.write(piece)
                _check_room(left)
        # If this is unset, zipfile uses the attributes of a new file.
        described.external_attr = member.external_attr


def _translate(
    pieces: Iterable[bytes | Block],
    vocabulary: ElementNames,
    ask: Ask,
    context: DocumentContext,
) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
            continue
        wrapper, is_changed = piece.parse(), False
        grouped = _group(vocabulary.find_slots(wrapper))
        if grouped and _READING.search(piece.raw):
            context.warn(LOST_READINGS)
        for text, same in grouped.items():
            translation = ask(text)
            for slot in same if translation != text else ():
                is_changed = True
                slot.write(translation, context.target)
        is_changed |= vocabulary.finish(wrapper, context.target)
        yield piece.serialize(wrapper) if is_changed else piece.raw


def _check_room(left: int) -> None:
    if left < 0:
        raise DocumentTooLarge(
            f"The translation is more than {_MAX_GROWTH} times as large as the document"
        )
