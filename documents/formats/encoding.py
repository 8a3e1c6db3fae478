"""Between the bytes of a text file and its characters. What is read and written again is the
same, byte for byte: a byte that is no text is kept as half of a character (PEP 383).
"""

import codecs
import io
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple

import webencodings
import yaml

from contract.languages import normalize_language
from documents.errors import DamagedDocument, DocumentTooLarge

#: A format that needs the whole document takes up to this many bytes.
MAX_BYTES = 32 << 20
#: The most characters of one line, or of one record of a table.
MAX_LINE = 4 << 20
#: The bytes of a file that are read at a time.
CHUNK_BYTES = 1 << 20
#: The start of a file, with the declaration of its encoding.
_HEAD_BYTES = 4096
#: The bytes of lines that are not ASCII from which an encoding is guessed.
_SAMPLE_BYTES = 64 << 10
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
#: The encodings of old files, with their languages.
_ENCODINGS = Path(__file__).with_name("encodings.yaml")
#: Where `chardet` is not this sure, or finds none, the encoding is the first in which the file
#: has the fewest characters: only short Japanese and Chinese files are so.
_LEAST_CONFIDENCE = 0.02
#: A file with this many characters of UTF-8 and nothing else is in no other encoding.
_SURE_CHARACTERS = 3
#: A byte that is no text, among characters.
_STRAY = re.compile("[\udc80-\udcff]")
_STRAYS = "surrogateescape"
#: Writes the characters that an encoding lacks as numbers, as HTML and XML read them.
_NUMBERS = "documents.numbers"

#: Tells the document's owner something about the translation.
Warn = Callable[[str], None]


def _write_number(error: UnicodeError) -> tuple[str | bytes, int]:
    """Handles the first character; stray bytes are written as they were."""
    assert isinstance(error, UnicodeEncodeError)
    error.end = error.start + 1
    is_stray = _STRAY.match(error.object, error.start)
    return codecs.lookup_error(_STRAYS if is_stray else "xmlcharrefreplace")(error)


codecs.register_error(_NUMBERS, _write_number)


@dataclass(frozen=True)
class Encoding:
    """The encoding of a file's characters, and the mark with which it begins, if any."""

    name: str = "utf-8"
    mark: bytes = b""

    @property
    def title(self) -> str:
        """The name that people know."""
        return self.name.replace("cp125", "windows-125").upper()


class _Survey(NamedTuple):
    """The characters that are not ASCII, the bytes that are no text, and the first's place."""

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
    """The encoding that a file's first bytes tell, or its declaration, or else UTF-8; and where
    it is none of these, the likeliest.

    A group of `declaration` finds the name of an encoding where the file says it. The group
    `label` has a name of the web, where `latin1` is windows-1252. `language` is the text's, if
    it is known. Raises DamagedDocument for a file that is no text.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    mark = next(filter(head.startswith, _MARKS), b"")
    encoding = Encoding(_MARKS.get(mark, "utf-8"), mark)
    declared = None if mark else _read_declaration(head, declaration)
    survey = _survey(path, encoding)
    if declared and declared != encoding:
        if survey.strays or survey.known < _SURE_CHARACTERS:
            survey = _survey(path, declared)
        else:
            warn(f"The file says {declared.title}, and is UTF-8: read as that.")
            declared = None
    if declared and survey.strays <= survey.known:
        encoding = declared
    elif not mark:
        survey = _survey(path, encoding) if declared else survey
        guess = _find_wide(head)
        if guess or survey.strays > survey.known:
            encoding = Encoding(guess or _guess(path, language))
            survey = _survey(path, encoding)
            warn(f"The file does not say its encoding: read as {encoding.title}.")
    if survey.strays:
        warn(
            f"{survey.strays:,} of the file's bytes, the first at byte {survey.first:,}, are "
            f"not {encoding.title}: they stay, and are read as windows-1252 in texts."
        )
    return encoding


def _read_declaration(
    head: bytes, declaration: re.Pattern[bytes] | None
) -> Encoding | None:
    """The declared encoding. None for one that is unknown, in which any text may hide, or in
    which the declaration could not be read."""
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
    """UTF-16 without a mark, by its spaces, tags and ends of lines. Other text has no zeros."""
    if b"\0" not in head:
        return None
    counts = {
        name: sum(map(head.decode(name, "replace").count, " <\r\n"))
        for name in ("utf-16-le", "utf-16-be")
    }
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] > len(head) // 200 else None


def _guess(path: Path, language: str | None) -> str:
    """The likeliest encoding of text that is not UTF-8, among those of its language if it has
    any. Raises DamagedDocument if it is no text."""
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
    names, sample = own or [*languages], b"".join(lines)
    likely = min(names, key=lambda name: _count(sample, name))
    found, *_ = chardet.detect_all(
        sample,
        ignore_threshold=True,
        include_encodings=names,
        no_match_encoding=likely,
        compat_names=False,
    )
    if not found["encoding"]:
        raise DamagedDocument("The file is no text in any encoding that is known")
    return found["encoding"] if found["confidence"] > _LEAST_CONFIDENCE else likely


def _count(sample: bytes, name: str) -> float:
    """The characters of a sample in an encoding, endless where it does not fit."""
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
    """A text without stray bytes: in UTF-8 they are most often of windows-1252."""
    return _STRAY.sub(
        lambda found: bytes([ord(found[0]) & 0xFF]).decode("cp1252", "replace"), text
    )


def _stream(path: Path, encoding: Encoding) -> Iterator[tuple[int, str]]:
    """A file's characters in chunks, each with the place of its first byte."""
    decoder = codecs.getincrementaldecoder(encoding.name)(_STRAYS)
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
    """A file's characters after its mark, in chunks. Raises DamagedDocument for what is no
    text."""
    for start, text in _stream(path, encoding):
        if (zero := text.find("\0")) >= 0:
            before = text[:zero].encode(encoding.name, _STRAYS)
            raise _refuse(start + len(before), encoding)
        yield text


def read_text(path: Path, encoding: Encoding, *, max_bytes: int = MAX_BYTES) -> str:
    """The whole file. Raises DamagedDocument or DocumentTooLarge."""
    size = path.stat().st_size
    if size > max_bytes:
        raise DocumentTooLarge(
            f"The file has {size:,} bytes; expected at most {max_bytes:,} in this format"
        )
    return "".join(stream(path, encoding))


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
    parts: Iterable[str],
    target: Path,
    encoding: Encoding,
    *,
    has_numbers: bool = False,
    declaration: re.Pattern[bytes] | None = None,
    warn: Warn,
) -> None:
    """Writes a new file. A character that the encoding lacks turns all of it to UTF-8, and the
    name in its declaration, unless the format has numbers for it as HTML has."""
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
                    f"The file was {encoding.title}, which lacks U+{missing:04X} of the "
                    "translation: it is UTF-8 now."
                )
                file.write(encoder.encode("", True))
                _turn_to_utf8(file, target.parent, encoding, declaration)
                encoder = codecs.getincrementalencoder("utf-8")(errors)
                written = encoder.encode(part)
            file.write(written)
        file.write(encoder.encode("", True))


def _turn_to_utf8(
    file: BinaryIO,
    folder: Path,
    encoding: Encoding,
    declaration: re.Pattern[bytes] | None,
) -> None:
    """Writes what is in the file in UTF-8."""
    with TemporaryFile(dir=folder) as old:
        file.seek(0)
        shutil.copyfileobj(file, old)
        old.seek(0)
        file.seek(0)
        file.truncate()
        reader = io.TextIOWrapper(old, encoding.name, _STRAYS, newline="")
        while text := reader.read(CHUNK_BYTES):
            content = text.encode("utf-8", _STRAYS)
            found = declaration.search(content) if declaration else None
            if found and found.lastindex and not file.tell():
                start, end = found.span(found.lastindex)
                content = content[:start] + b"UTF-8" + content[end:]
            file.write(content)


def _refuse(place: int, encoding: Encoding) -> DamagedDocument:
    return DamagedDocument(
        f"The file is no text: byte {place:,} is not {encoding.title}"
    )
