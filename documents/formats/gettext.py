"""gettext's catalogs: what has no translation gets one, in as many plural forms as the target
language has. Everything else stays, and so do comments and the order of entries.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from babel import Locale, UnknownLocaleError
from babel.messages.plurals import DEFAULT_PLURAL, PLURALS
from babel.plural import to_gettext

from contract.languages import normalize_language
from documents.errors import DamagedDocument
from documents.formats.edits import Edit, make_format
from documents.formats.format import Languages
from documents.formats.prose import is_prose

_DECLARATION = re.compile(rb"Content-Type:[^\n\"]*charset=([\w.:-]+)", re.IGNORECASE)
_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
_FIELD = re.compile(
    r'[ \t]*(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]*)?"((?:[^"\\]|\\.)*)"[ \t]*'
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_CHARACTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
}
_SIGNS = {"\\": "\\\\", '"': '\\"', **{c: f"\\{n}" for n, c in _CHARACTERS.items()}}
_PLURAL = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;\n]+)")
#: Forms that any language has, and one more.
_MOST_FORMS = 7
#: Where gettext breaks lines, without quotes.
_WIDTH = 77


@dataclass
class _Field:
    """A keyword with its text, from `start` to `end` without the last line's end."""

    keyword: str
    start: int
    end: int
    #: What each line has between its quotes.
    parts: list[str]
    text: str = ""


@dataclass
class _Entry:
    """The fields of an entry by keyword, and the line of its flags."""

    fields: dict[str, _Field] = field(default_factory=dict)
    flags: tuple[int, int, str] | None = None

    @property
    def translations(self) -> list[_Field]:
        return [f for f in self.fields.values() if f.keyword.startswith("msgstr")]

    @property
    def is_header(self) -> bool:
        return not self.fields["msgid"].text and "msgctxt" not in self.fields


@dataclass(frozen=True)
class _Header:
    """What a catalog says of its language."""

    text: str = ""

    def get(self, name: str) -> str:
        """The value of a header's line; empty if there is none."""
        found = re.search(rf"^{name}:[ \t]*(.*)$", self.text, re.MULTILINE)
        return found[1].strip() if found else ""

    def is_in(self, language: str) -> bool:
        """Whether the catalog's translations are in a language, or it does not say."""
        own = self.get("Language")
        return not own or normalize_language(own) == language

    def find_plural(self, language: str) -> tuple[int, str]:
        """The number of a language's forms and gettext's expression for them: the catalog's
        own, or those of CLDR."""
        own = _PLURAL.search(self.get("Plural-Forms"))
        if own and self.get("Language") and self.is_in(language):
            with suppress(ValueError):
                gettext.c2py(own[2])
                return min(max(int(own[1]), 1), _MOST_FORMS), own[2]
        return _find_plural(language)

    def write(self, raw: str, language: str, line_end: str) -> str:
        """The header's field, as the file has it, for a catalog in a language."""
        if not self.text or (self.get("Language") and self.is_in(language)):
            return raw
        number, expression = self.find_plural(language)
        raw = _set(raw, "Language", language, line_end)
        plural = f"nplurals={number}; plural={expression};"
        return _set(raw, "Plural-Forms", plural, line_end)


def _find_plural(language: str) -> tuple[int, str]:
    """gettext's own plurals, or CLDR's where Babel's list of those lacks the language."""
    if language in PLURALS:
        number, expression = PLURALS[language][:2]
        return int(number), str(expression)
    # CLDR also has rules that gettext cannot express: those end in a ValueError.
    with suppress(UnknownLocaleError, ValueError):
        rule = _PLURAL.search(to_gettext(Locale.parse(language).plural_form))
        if rule:
            gettext.c2py(rule[2])
            return int(rule[1]), rule[2]
    number, expression = DEFAULT_PLURAL[:2]
    return int(number), str(expression)


def _set(raw: str, name: str, value: str, line_end: str) -> str:
    """A header's field with another value, which may have been on several lines."""
    line = rf'((?:"|\\n){name}:)(?:[^"\\]|\\[^n]|"\s*")*(?=\\n)'
    written, count = re.subn(line, lambda found: f"{found[1]} {value}", raw)
    return written if count else f'{raw}{line_end}"{name}: {value}\\n"'


def find_edits(content: str) -> Iterator[Edit]:
    """The edits of a catalog, in order. Raises DamagedDocument where it is none."""
    entries = _read_entries(content)
    first = next(entries, None)
    if first is None:
        if content.strip():
            raise DamagedDocument(
                "The file has no msgid; expected a catalog of gettext"
            )
        return
    header = _Header(first.fields["msgstr"].text if first.is_header else "")
    for entry in chain([first], entries):
        yield from _Writer(content, header, entry).find_edits()


def _read_entries(content: str) -> Iterator[_Entry]:
    entry, last = _Entry(), None
    for number, line in enumerate(_LINE.finditer(content), 1):
        raw = line[0].rstrip("\r\n")
        found = _FIELD.fullmatch(raw)
        is_note = not raw.strip() or raw.lstrip().startswith("#")
        if not is_note and (not found or not (found[1] or last)):
            raise DamagedDocument(f"Line {number:,} is no line of a catalog of gettext")
        starts = found is not None and found[1] in ("msgid", "msgctxt")
        if entry.translations and (is_note or starts):
            yield _check(entry, number)
            entry = _Entry()
        if is_note:
            last = None
            if raw.startswith("#,"):
                entry.flags = line.start(), line.end(), raw
        elif found and found[1]:
            last = _Field(found[1], line.start(), line.start() + len(raw), [found[2]])
            entry.fields[found[1]] = last
        elif found and last:
            last.parts.append(found[2])
            last.end = line.start() + len(raw)
    if entry.fields:
        yield _check(entry, content.count("\n") + 1)


def _check(entry: _Entry, number: int) -> _Entry:
    """An entry with its texts unescaped."""
    if "msgid" not in entry.fields or not entry.translations:
        raise DamagedDocument(
            f"The entry before line {number:,} has no msgid or no msgstr"
        )
    for each in entry.fields.values():
        each.text = _ESCAPE.sub(_unescape, "".join(each.parts))
    return entry


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _CHARACTERS.get(code, code)


@dataclass(frozen=True)
class _Writer:
    """Writes the translations of one entry."""

    content: str
    header: _Header
    entry: _Entry

    def find_edits(self) -> Iterator[Edit]:
        """The edits of the entry."""
        fields = self.entry.fields
        forms = [fields[k] for k in ("msgid", "msgid_plural") if k in fields]
        start = self.entry.translations[0].start
        end = self.entry.translations[-1].end
        if self.entry.is_header:
            yield Edit(
                start, end, (), lambda _, languages: self._write_header(languages)
            )
        elif all(is_prose(form.text) for form in forms):
            texts = tuple(form.text.strip() for form in forms)
            if self.entry.flags:
                first, last, _ = self.entry.flags
                yield Edit(first, last, (), lambda _, languages: self._flag(languages))
            yield Edit(
                *(start, end, texts, self._write),
                is_in_place=False,
                is_done=self._is_done,
            )

    def _write_header(self, languages: Languages) -> str:
        old = self.entry.translations[0]
        raw = self.content[old.start : old.end]
        return self.header.write(raw, languages.target, self._line_end)

    def _is_done(self, target: str) -> bool:
        done = all(each.text for each in self.entry.translations)
        return done and self.header.is_in(target)

    def _flag(self, languages: Languages) -> str:
        """The line of flags. `fuzzy` belongs to a translation that is replaced."""
        first, last, raw = self.entry.flags or (0, 0, "")
        flags = [flag.strip() for flag in raw[2:].split(",")]
        if "fuzzy" not in flags or self._is_done(languages.target):
            return self.content[first:last]
        others = ", ".join(flag for flag in flags if flag != "fuzzy")
        return f"#, {others}{self._line_end}" if others else ""

    def _write(self, new: Sequence[str], languages: Languages) -> str:
        old = self.entry.translations
        fields = self.entry.fields
        written = [_surround(fields["msgid"].text, new[0])]
        if "msgid_plural" not in fields:
            return self._format("msgstr", written[0], fields["msgid"])
        written.append(_surround(fields["msgid_plural"].text, new[1]))
        number, expression = self.header.find_plural(languages.target)
        rule: Callable[[int], int] = gettext.c2py(expression)
        is_kept = self.header.is_in(languages.target)
        kept = {each.keyword: each.text for each in old if is_kept}
        lines = []
        for index in range(number):
            keyword = f"msgstr[{index}]"
            is_singular = number > 1 and rule(1) == index
            text = kept.get(keyword) or written[not is_singular]
            lines.append(self._format(keyword, text, fields["msgid_plural"]))
        return self._line_end.join(lines)

    def _format(self, keyword: str, text: str, model: _Field) -> str:
        """A field as gettext writes it: on one line, or one for each of the text's, broken
        where the model's are."""
        written = "".join(_SIGNS.get(character, character) for character in text)
        pieces = re.findall(r"(?:(?!\\n)(?:\\.|[^\\]))*\\n|.+", written)
        if len(model.parts) > 1:
            pieces = [line for piece in pieces for line in _break(piece)]
        if len(pieces) < 2:
            return f'{keyword} "{written}"'
        return self._line_end.join([f'{keyword} ""', *(f'"{p}"' for p in pieces)])

    @property
    def _line_end(self) -> str:
        found = re.search(r"\r\n|\r|\n", self.content)
        return found[0] if found else "\n"


def _surround(model: str, text: str) -> str:
    """A text with the white space around the model: gettext checks it."""
    start = len(model) - len(model.lstrip())
    return model[:start] + text + model[len(model.rstrip()) :]


def _break(line: str) -> Iterator[str]:
    """A long line as several, cut after spaces."""
    part = ""
    for word in re.findall(r"\s*\S+\s*", line) or [line]:
        if part and len(part) + len(word) > _WIDTH:
            yield part
            part = ""
        part += word
    yield part


FORMAT = make_format(
    (".po", ".pot"),
    "text/x-gettext-translation",
    "text",
    find_edits,
    declaration=_DECLARATION,
)
