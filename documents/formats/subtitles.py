"""Subtitles, SubRip and WebVTT: speech is translated. Numbers, times, settings, tags,
notes and styles stay.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

from contract.markup import unescape
from documents.errors import DamagedDocument
from documents.formats import inline
from documents.formats.format import LINE, Edit, make_format, read_whole
from documents.formats.inline import InlinePiece
from documents.formats.text import join

#: The maximum number of cues and characters in a sentence that continues in the next cue.
_MOST_CUES, _MOST_CHARACTERS = 3, 250
_TIMES = re.compile(r"\s*\d[\d:.,]*\s*-->\s*\d[\d:.,]*")
_TAG = re.compile(r"</?[a-zA-Z][^<>\r\n]*>|<\d[\d:.]*>|\{[\\a-zA-Z][^{}\r\n]*\}")
#: The start of what another speaker says, after its tags: `- Hi.`, `JOHN: Hi.`, `<v John>Hi.`
_SPEAKER = regex.compile(
    r"(?:\s|<(?!v[ .])[^<>]*+>|\{[^{}]*+\})*+"
    r"(?:(?:[-–—‐]|>>|(?:&gt;){2}|\p{Lu}[^\p{Ll}\p{Lo}:]{,20}:\s)\s*\S|(<v[ .][^>]*>))"
)
_END = re.compile(r"[.!?…:;。！？।۔؟♪\])][\"'»”’」』]*\s*\Z")
#: A word, or a character of a script without spaces, with the marks that belong to it.
_WORD = re.compile(
    rf"(?:{_TAG.pattern})+|\s+"
    r"|[\u2e80-\ua4cf\u0e00-\u0eff][、。，．！？：；」』）…\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*"
    rf"|(?:(?!{_TAG.pattern})[^\s\u2e80-\ua4cf\u0e00-\u0eff])+"
)


@dataclass(frozen=True)
class _Line:
    """A line of speech, from `start` to `end` of the file, and the number of its cue."""

    start: int
    end: int
    raw: str
    cue: int


@dataclass(frozen=True)
class _Dialect:
    is_webvtt: bool

    def unescape(self, text: str) -> str:
        return unescape(text) if self.is_webvtt else text

    def escape(self, text: str) -> str:
        """Write text for a cue: on one line that cannot be mistaken for a line of times."""
        text = " ".join(text.replace("-->", "→").splitlines())
        return inline.escape(text) if self.is_webvtt else text

    def find_edits(self, content: str) -> Iterator[Edit]:
        """Yield the edits of a file, in order. Raises DamagedDocument if it has no cues."""
        said = _gather(([line] for line in self._find_lines(content)), _is_said_by_one)
        for lines in _gather(said, _goes_on):
            pieces = self._read_pieces(lines)
            if inline.has_text(pieces):
                yield self._make_edit(content, lines, pieces)

    def _find_lines(self, content: str) -> Iterator[_Line]:
        """Yield the lines of the cues. SubRip's cues may have empty lines; in WebVTT an empty
        line ends a cue, and lines without times are no cue."""
        if self.is_webvtt and not content.startswith("WEBVTT"):
            raise DamagedDocument("The file's first line is not WEBVTT")
        cue, is_inside = 0, False
        waiting: _Line | None = None
        for line in LINE.finditer(content):
            raw = line[0].strip()
            is_time = _TIMES.match(raw) is not None
            # The line before the times may be the cue's number.
            if raw and waiting and not (is_time and waiting.raw.isdigit()):
                yield waiting
                waiting = None
            if is_time:
                cue += 1
                is_inside = True
                waiting = None
            elif not raw:  # YouTube has lines of one space, which do not end a cue
                is_inside &= not self.is_webvtt or bool(line[0].strip("\r\n"))
            elif is_inside:
                start = line.start() + line[0].index(raw)
                waiting = _Line(start, start + len(raw), raw, cue)
        if waiting:
            yield waiting
        if not cue and content.strip() and not self.is_webvtt:
            raise DamagedDocument(
                "The file has no times; expected lines such as 00:00:01,000 --> 00:00:04,000"
            )

    def _read_pieces(self, lines: Sequence[_Line]) -> list[InlinePiece]:
        raw = join([line.raw for line in lines])
        pieces, place = [], 0
        for tag in _TAG.finditer(raw):
            pieces.append(InlinePiece(self.unescape(raw[place : tag.start()])))
            pieces.append(inline.read_tag(tag[0]))
            place = tag.end()
        pieces.append(InlinePiece(self.unescape(raw[place:])))
        return [piece for piece in pieces if piece.raw]

    def _make_edit(
        self, content: str, lines: Sequence[_Line], pieces: Sequence[InlinePiece]
    ) -> Edit:
        lengths = [len(_TAG.sub("", line.raw)) for line in lines]
        gaps = [content[line.end : after.start] for line, after in pairwise(lines)]

        def write(new: Sequence[str], _: str) -> str:
            said = inline.read_fragment(new[0], pieces, self.escape)
            first, *shares = divide(said, lengths)
            # An empty line would end the cue, unless another one follows.
            pairs = zip(gaps, shares, strict=True)
            return first + "".join(g + s for g, s in pairs if s or "-->" in g)

        texts = (inline.write_fragment(pieces),)
        return Edit(lines[0].start, lines[-1].end, texts, write)


def divide(text: str, lengths: Sequence[int]) -> list[str]:
    """Divide a text between words into lines, one for each length and in proportion to it."""
    words = _WORD.findall(text)
    total = sum(len(_TAG.sub("", word)) for word in words)
    scale = total / (sum(lengths) or 1)
    lines: list[list[str]] = [[]]
    length, is_blank = 0, True
    goal = lengths[0] * scale
    for word in words:
        width = len(_TAG.sub("", word))
        is_full = length + width / 2 > goal and not is_blank
        if is_full and len(lines) < len(lengths) and not word.startswith("</"):
            goal += lengths[len(lines)] * scale
            lines.append([])
            is_blank = True
        lines[-1].append(word)
        length += width
        is_blank = is_blank and word.isspace()
    lines += [[]] * (len(lengths) - len(lines))
    return ["".join(line).strip() for line in lines]


def _gather(
    groups: Iterable[list[_Line]], goes_on: Callable[[list[_Line], list[_Line]], bool]
) -> Iterator[list[_Line]]:
    """Join each group with those that continue it."""
    waiting: list[_Line] = []
    for group in groups:
        if waiting and not goes_on(waiting, group):
            yield waiting
            waiting = []
        waiting.extend(group)
    if waiting:
        yield waiting


def _is_said_by_one(before: Sequence[_Line], after: Sequence[_Line]) -> bool:
    """Whether lines are from the same cue and, if it has two speakers, the same speaker."""
    speaker = _SPEAKER.match(after[0].raw)
    is_other = speaker and not (speaker[1] and before[0].raw.startswith(speaker[1]))
    return before[-1].cue == after[0].cue and not is_other


def _goes_on(before: Sequence[_Line], after: Sequence[_Line]) -> bool:
    """Whether a sentence continues in the next cue."""
    raw = [line.raw for line in (*before, *after)]
    return (
        after[-1].cue - before[0].cue < _MOST_CUES
        and before[-1].cue != after[0].cue
        and sum(map(len, raw)) <= _MOST_CHARACTERS
        and not _END.search(before[-1].raw)
        and after[0].raw[0].islower()
        and not any(map(_TAG.search, raw))
    )


_FIND_SUBRIP = read_whole(_Dialect(is_webvtt=False).find_edits)
_FIND_WEBVTT = read_whole(_Dialect(is_webvtt=True).find_edits)
SUBRIP = make_format((".srt",), "application/x-subrip", "xml", _FIND_SUBRIP)
WEBVTT = make_format((".vtt",), "text/vtt", "xml", _FIND_WEBVTT)
