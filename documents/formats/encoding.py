"""Between the bytes of a text file and its characters. What is read and written again is the
same, byte for byte.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from documents.errors import DamagedDocument, DocumentTooLarge

#: A format that needs the whole document takes up to this many bytes.
MAX_BYTES = 32 << 20
#: The most characters of one line, or of one record of a table.
MAX_LINE = 4 << 20
#: The bytes of a file that are read at a time.
CHUNK_BYTES = 1 << 20
#: The start of a file, with the declaration of its encoding.
_HEAD_BYTES = 4096
#: A CR at the end may be the first half of CRLF.
_LINE_END = re.compile(r"\r\n|\r(?!\Z)|\n")
#: Encodings of Python in which any text may hide, or that take far longer than others.
_REFUSED = frozenset(
    "idna punycode raw-unicode-escape undefined unicode-escape utf-7".split()
)
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@dataclass(frozen=True)
class Encoding:
    """The encoding of a file's characters, and the mark with which it begins, if any."""

    name: str = "utf-8"
    mark: bytes = b""


def find_encoding(path: Path, declaration: re.Pattern[bytes] | None = None) -> Encoding:
    """The encoding that a file's first bytes tell, or UTF-8.

    The first group of `declaration` finds the name of an encoding where the file says it.
    Raises DamagedDocument if Python does not know that encoding.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return Encoding(name, mark)
    found = declaration.search(head) if declaration else None
    if not found:
        return Encoding()
    name = found[1].decode("ascii", "replace")
    # gettext's templates have CHARSET in place of a name.
    if name.upper() == "CHARSET":
        return Encoding()
    try:
        info = codecs.lookup(name)
        if info.name in _REFUSED:
            raise LookupError(name)
        "".encode(info.name)
    except (LookupError, UnicodeError) as error:
        raise DamagedDocument(
            f"The file declares the encoding {name[:40]!r}, which is unknown; expected UTF-8"
        ) from error
    # A file whose declaration can be read is neither of these.
    is_wide = info.name.startswith(("utf-16", "utf-32"))
    return Encoding() if is_wide else Encoding(info.name)


def stream(path: Path, encoding: Encoding) -> Iterator[str]:
    """A file's characters after its mark, in chunks. Raises DamagedDocument at a byte that is
    no text."""
    decoder = codecs.getincrementaldecoder(encoding.name)("strict")
    with path.open("rb") as file:
        place = file.seek(len(encoding.mark))
        is_last = False
        while not is_last:
            chunk = file.read(CHUNK_BYTES)
            is_last = not chunk
            before = decoder.getstate()[0]
            try:
                text = decoder.decode(chunk, is_last)
            except UnicodeDecodeError as error:
                raise _refuse(place - len(before) + error.start, encoding) from error
            if (zero := text.find("\0")) >= 0:
                start = place - len(before)
                raise _refuse(
                    start + len(text[:zero].encode(encoding.name, "replace")), encoding
                )
            place += len(chunk)
            yield text


def read_text(
    path: Path,
    declaration: re.Pattern[bytes] | None = None,
    *,
    max_bytes: int = MAX_BYTES,
) -> str:
    """The whole file. Raises DamagedDocument or DocumentTooLarge."""
    size = path.stat().st_size
    if size > max_bytes:
        raise DocumentTooLarge(
            f"The file has {size:,} bytes; expected at most {max_bytes:,} in this format"
        )
    return "".join(stream(path, find_encoding(path, declaration)))


def stream_lines(path: Path, encoding: Encoding) -> Iterator[str]:
    """A file's lines with their ends, which are CR, LF or both. Raises DocumentTooLarge for a
    line that is too long to be one."""
    rest = ""
    for chunk in stream(path, encoding):
        text, end = rest + chunk, 0
        for found in _LINE_END.finditer(text):
            yield text[end : found.end()]
            end = found.end()
        rest = text[end:]
        if len(rest) > MAX_LINE:
            raise DocumentTooLarge(
                f"The file has a line of more than {MAX_LINE:,} characters"
            )
    if rest:
        yield rest


def write_text(
    parts: Iterable[str], target: Path, encoding: Encoding, errors: str = "strict"
) -> None:
    """Writes a new file. Raises DamagedDocument for a character that the encoding lacks, unless
    Python's error handler `errors` writes it in another way."""
    encoder = codecs.getincrementalencoder(encoding.name)(errors)
    with target.open("xb") as file:
        file.write(encoding.mark)
        try:
            for part in parts:
                file.write(encoder.encode(part))
        except UnicodeEncodeError as error:
            raise DamagedDocument(
                f"The translation has the character U+{ord(error.object[error.start]):04X}, "
                f"which the file's encoding {encoding.name} lacks; save the file as UTF-8"
            ) from error
        file.write(encoder.encode("", True))


def _refuse(place: int, encoding: Encoding) -> DamagedDocument:
    return DamagedDocument(
        f"The file is no text: byte {place:,} is not {encoding.name.upper()}. "
        "Expected UTF-8, or UTF-16 with a byte order mark"
    )
