"""Converts the bytes of a text file to characters and back. Unchanged text is written byte for
byte as it was: an invalid byte is kept as a lone surrogate (PEP 383).
"""

import codecs
import io
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple

import webencodings
import yaml

from contract.languages import normalize_language
from documents.errors import DamagedDocument, DocumentTooLarge

#: The maximum size of a document whose format needs it as a whole.
MAX_BYTES = 32 << 20
#: The maximum number of characters in a line, or in a row of a table.
MAX_LINE = 4 << 20
#: The bytes of a file to read at a time.
CHUNK_BYTES = 1 << 20
#: The bytes at a file's start that may declare its encoding.
_HEAD_BYTES = 4096
#: The bytes of non-ASCII lines from which an encoding is guessed.
_SAMPLE_BYTES = 64 << 10
#: A CR at the end may be the first half of CRLF.
_LINE_END = re.compile(r"\r\n|\r(?!\Z)|\n")
#: Python's encodings that can disguise any text, or that are far slower than others.
_REFUSED = frozenset(
    "idna punycode raw-unicode-escape undefined unicode-escape utf-7".split()
)
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
#: The encodings of old files, with their languages.
_ENCODINGS = Path(__file__).with_name("encodings.yaml")
#: If `chardet` is less confident or finds none, the encoding is the first in which the file has
#: the fewest characters. Only short Japanese and Chinese files need this.
_LEAST_CONFIDENCE = 0.02
#: A file with this many non-ASCII characters, all valid UTF-8, is in no other encoding.
_SURE_CHARACTERS = 3
#: Bytes of Chinese, Japanese and Korean words; the second one of Katakana may be in ASCII.
_EAST_ASIAN = re.compile(rb"[\x80-\xff]{2}|(?:[\x80-\xff].){3}")
#: An invalid byte among the characters.
_STRAY = re.compile("[\udc80-\udcff]")
_STRAYS = "surrogateescape"
#: The error handler that writes missing characters as numeric references, as in HTML and XML.
_NUMBERS = "documents.numbers"

#: Adds a warning about the translation for the document's owner.
Warn = Callable[[str], None]


def _write_number(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write the first character as a numeric reference, or a stray byte unchanged."""
    assert isinstance(error, UnicodeEncodeError)
    error.end = error.start + 1
    is_stray = _STRAY.match(error.object, error.start)
    return codecs.lookup_error(_STRAYS if is_stray else "xmlcharrefreplace")(error)


codecs.register_error(_NUMBERS, _write_number)


@dataclass(frozen=True)
class Encoding:
    """The encoding of a file's characters, and its byte order mark, if any."""

    name: str = "utf-8"
    mark: bytes = b""
    #: Finds its name in a file that declares it.
    declaration: re.Pattern[bytes] | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        """The common name of the encoding."""
        return self.name.replace("cp125", "windows-125").upper()


class _Survey(NamedTuple):
    """The number of non-ASCII characters, that of invalid bytes, and the first one's offset."""

    known: int
    strays: int
    first: int


def find_encoding(
    path: Path,
    declaration: re.Pattern[bytes] | None = None,
    *,
    language: str | None = None,
    warn: Warn,
) -> Encoding:
    """Return the encoding given by a file's byte order mark or declaration, or else UTF-8; if
    the content fits none of these, return the likeliest encoding.

    A group of `declaration` matches the name in a file's declaration. A group called `label`
    matches the web's names, where `latin1` is windows-1252. `language` is the text's, if known.
    Raises DamagedDocument if the file is not text.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    mark = next(filter(head.startswith, _MARKS), b"")
    encoding = Encoding(_MARKS.get(mark, "utf-8"), mark)
    declared = None if mark else _read_declaration(head, declaration)
    survey = _survey(path, encoding)
    if declared and declared != encoding:
        if not survey.strays and survey.known >= _SURE_CHARACTERS:
            warn(f"The file declares {declared.title}, but is UTF-8: read as UTF-8.")
        elif (own := _survey(path, declared)).strays <= own.known:
            encoding = declared
            survey = own
    fits = survey.strays <= survey.known
    guess = None if mark or (fits and encoding == declared) else _find_wide(head)
    if guess or not (mark or fits):
        encoding = Encoding(guess or _guess(path, language))
        survey = _survey(path, encoding)
        warn(f"The file does not declare its encoding: read as {encoding.title}.")
    if survey.strays:
        warn(
            f"{survey.strays:,} of the file's bytes, the first at byte {survey.first:,}, are "
            f"not {encoding.title}: they are kept, but read as windows-1252 in texts."
        )
    return replace(encoding, declaration=declaration)


def _read_declaration(
    head: bytes, declaration: re.Pattern[bytes] | None
) -> Encoding | None:
    """Return the declared encoding, or None if it is unknown, refused, or contradicted by the
    readable declaration."""
    found = declaration.search(head) if declaration else None
    if not found or not found.lastindex:
        return None
    name = found[found.lastindex].decode("ascii", "replace")
    known = webencodings.lookup(name) if found.lastgroup == "label" else None
    try:
        codec = codecs.lookup(known.codec_info.name if known else name).name
        "".encode(codec)
    except (LookupError, UnicodeError):
        return None
    is_wide = codec.startswith(("utf-16", "utf-32"))
    return None if is_wide or codec in _REFUSED else Encoding(codec)


def _find_wide(head: bytes) -> str | None:
    """Recognise UTF-16 without a mark by its zeros, spaces, tags and line endings."""
    if b"\0" not in head:
        return None
    counts = {
        name: sum(map(head.decode(name, "replace").count, " <\r\n"))
        for name in ("utf-16-le", "utf-16-be")
    }
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] > len(head) // 200 else None


def _guess(path: Path, language: str | None) -> str:
    """Return the likeliest encoding of text that is not UTF-8, among those of its language if
    it has any. Raises DamagedDocument if the file is not text."""
    import chardet  # few files need it

    lines, left = list[bytes](), _SAMPLE_BYTES
    with path.open("rb") as file:
        while left > 0 and (line := file.readline(_SAMPLE_BYTES)):
            if not line.isascii():
                lines.append(line)
                left -= len(line)
    language = normalize_language(language or "")
    languages: dict[str, str] = yaml.safe_load(_ENCODINGS.read_text("utf-8"))
    own = [name for name, known in languages.items() if language in known.split()]
    sample = b"".join(lines)
    asian = () if _EAST_ASIAN.search(sample) else ("ja", "ko", "zh")
    names = own or [name for name, known in languages.items() if known not in asian]
    likely = min(names, key=lambda name: _count(sample, name))
    found, *_ = chardet.detect_all(
        sample,
        ignore_threshold=True,
        include_encodings=names,
        no_match_encoding=likely,
        compat_names=False,
    )
    if not found["encoding"]:
        raise DamagedDocument("The file is not text in any known encoding")
    return found["encoding"] if found["confidence"] > _LEAST_CONFIDENCE else likely


def _count(sample: bytes, name: str) -> float:
    """Count the characters of a sample in an encoding; infinite if it does not fit."""
    try:
        return len(codecs.getincrementaldecoder(name)().decode(sample))
    except UnicodeDecodeError:
        return math.inf


def _survey(path: Path, encoding: Encoding) -> _Survey:
    known = strays = first = 0
    for place, text in _stream(path, encoding):
        if text.isascii():
            continue
        found = [each.start() for each in _STRAY.finditer(text)]
        if found and not strays:
            first = place + len(text[: found[0]].encode(encoding.name, _STRAYS))
        strays += len(found)
        known += len(text) - len(text.encode("ascii", "ignore")) - len(found)
    return _Survey(known, strays, first)


def mend(text: str) -> str:
    """Replace the stray bytes of a text: in UTF-8 files, most are windows-1252."""
    return _STRAY.sub(
        lambda found: bytes([ord(found[0]) & 0xFF]).decode("cp1252", "replace"), text
    )


def _stream(path: Path, encoding: Encoding) -> Iterator[tuple[int, str]]:
    """Yield a file's characters in chunks, each with the offset of its first byte."""
    # UTF-16 cannot write a single byte.
    errors = "strict" if encoding.name.startswith("utf-16") else _STRAYS
    decoder = codecs.getincrementaldecoder(encoding.name)(errors)
    with path.open("rb") as file:
        place = file.seek(len(encoding.mark))
        is_last = False
        while not is_last:
            chunk = file.read(CHUNK_BYTES)
            is_last = not chunk
            start = place - len(decoder.getstate()[0])
            try:
                text = decoder.decode(chunk, is_last)
            except UnicodeDecodeError as error:
                raise _refuse(start + error.start, encoding) from error
            place += len(chunk)
            yield start, text


def stream(path: Path, encoding: Encoding) -> Iterator[str]:
    """Yield a text file's characters in chunks, without its mark. Raises DamagedDocument."""
    for start, text in _stream(path, encoding):
        if (zero := text.find("\0")) >= 0:
            before = text[:zero].encode(encoding.name, _STRAYS)
            raise _refuse(start + len(before), encoding)
        yield text


def read_text(path: Path, encoding: Encoding, *, max_bytes: int = MAX_BYTES) -> str:
    """Return a whole file. Raises DamagedDocument and DocumentTooLarge."""
    size = path.stat().st_size
    if size > max_bytes:
        raise DocumentTooLarge(
            f"The file has {size:,} bytes; expected at most {max_bytes:,} in this format"
        )
    return "".join(stream(path, encoding))


def stream_lines(path: Path, encoding: Encoding) -> Iterator[str]:
    """Yield a file's lines with their endings: CR, LF or both. Raises DocumentTooLarge if a
    line is longer than `MAX_LINE`."""
    rest = ""
    for chunk in stream(path, encoding):
        text = rest + chunk
        end = 0
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
    parts: Iterable[str],
    target: Path,
    encoding: Encoding,
    *,
    has_numbers: bool,
    warn: Warn,
) -> None:
    """Write a new file. If the encoding lacks a character, the file and its declaration change
    to UTF-8, unless the format has numeric references, as HTML has."""
    errors = _NUMBERS if has_numbers else _STRAYS
    encoder = codecs.getincrementalencoder(encoding.name)(errors)
    with target.open("x+b") as file:
        file.write(encoding.mark)
        for part in parts:
            try:
                written = encoder.encode(part)
            except UnicodeEncodeError as error:
                missing = ord(error.object[error.start])
                warn(
                    f"The file was {encoding.title}, which lacks the translation's "
                    f"U+{missing:04X}: it is now UTF-8."
                )
                file.write(encoder.encode("", True))
                _turn_to_utf8(file, target.parent, encoding)
                encoder = codecs.getincrementalencoder("utf-8")(errors)
                written = encoder.encode(part)
            file.write(written)
        file.write(encoder.encode("", True))


def _turn_to_utf8(file: BinaryIO, folder: Path, encoding: Encoding) -> None:
    """Convert the content of a file to UTF-8."""
    with TemporaryFile(dir=folder) as old:
        file.seek(0)
        shutil.copyfileobj(file, old)
        old.seek(0)
        file.seek(0)
        file.truncate()
        reader = io.TextIOWrapper(old, encoding.name, _STRAYS, newline="")
        while text := reader.read(CHUNK_BYTES):
            content = text.encode("utf-8", _STRAYS)
            found = encoding.declaration and encoding.declaration.search(content)
            if found and found.lastindex and not file.tell():
                start, end = found.span(found.lastindex)
                content = content[:start] + b"UTF-8" + content[end:]
            file.write(content)


def _refuse(place: int, encoding: Encoding) -> DamagedDocument:
    return DamagedDocument(
        f"The file is not text: byte {place:,} is not valid {encoding.title}"
    )
