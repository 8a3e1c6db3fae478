"""gettext catalogs: entries without a translation get one, in as many plural forms as the
target language has. Everything else stays, including comments and the order of entries.
"""

import gettext
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain

from babel import Locale, UnknownLocaleError
from babel.messages.plurals import DEFAULT_PLURAL, PLURALS
from babel.plural import to_gettext

from contract.languages import normalize_language, normalize_variant
from documents.errors import DamagedDocument
from documents.formats.format import (
    LINE,
    Edit,
    is_prose,
    make_format,
    read_whole,
    surround,
)

_DECLARATION = re.compile(rb"Content-Type:[^\n\"]*charset=([\w.:-]+)", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\r|\n")
_FIELD = re.compile(
    r"[ \t]*(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]*)?"
    r'"((?:[^"\\]++|\\.)*+)"[ \t]*'
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_CHARACTERS = dict(zip("ntrabfv", "\n\t\r\a\b\f\v", strict=True))
#: Control characters without a letter are written as octal numbers.
_SIGNS = {
    **{code: f"\\{code:03o}" for code in range(32)},
    **{ord(sign): f"\\{letter}" for letter, sign in _CHARACTERS.items()},
    **{ord(sign): f"\\{sign}" for sign in '\\"'},
}
_PLURAL = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;\n]+)")
#: One more than the plural forms of any language.
_MOST_FORMS = 7
#: The width at which gettext breaks lines, without quotes.
_WIDTH = 77


@dataclass
class _Field:
    """A keyword with its text, from `start` to `end` without the last line's end."""

    keyword: str
    start: int
    end: int
    #: The content between the quotes of each line.
    parts: list[str]
    text: str = ""


@dataclass
class _Entry:
    """An entry: its fields by keyword, ending with its translations, and its lines of flags."""

    fields: dict[str, _Field] = field(default_factory=dict)
    translations: list[_Field] = field(default_factory=list)
    flags: list[re.Match[str]] = field(default_factory=list)

    @property
    def is_header(self) -> bool:
        return not self.fields["msgid"].text and "msgctxt" not in self.fields


@dataclass(frozen=True)
class _Plural:
    """The number of a language's forms, and gettext's expression for them."""

    number: int
    expression: str
    #: The number of the form for one thing.
    singular: int


@dataclass(frozen=True)
class _Header:
    """A catalog's header, with its language and plural forms."""

    text: str
    #: Empty if the header does not name it.
    language: str
    #: The catalog's own forms, if they are declared and valid.
    plural: _Plural | None

    def is_in(self, language: str) -> bool:
        """Whether the catalog's translations are in a language, or in an unnamed one."""
        return self.language in ("", language)

    def find_plural(self, language: str) -> _Plural:
        """Return the forms of a language: the catalog's, or else gettext's or CLDR's."""
        own = self.plural if self.language == language else None
        return own or _find_plural(normalize_language(language))

    def write(self, language: str) -> str:
        plural = self.find_plural(language)
        forms = f"nplurals={plural.number}; plural={plural.expression};"
        text = self.text.replace("charset=CHARSET", "charset=UTF-8")  # of a template
        lines = text.removesuffix("\n").split("\n")
        code = language.replace("-", "_")
        for name, value in (("Language", code), ("Plural-Forms", forms)):
            starts = (n for n, line in enumerate(lines) if line.startswith(f"{name}:"))
            at = next(starts, len(lines))
            lines[at : at + 1] = [f"{name}: {value}"]
        return "".join(f"{line}\n" for line in lines)


def _read_header(text: str) -> _Header:
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    own = _PLURAL.search(fields.get("Plural-Forms", ""))
    plural = _read_plural(own[1], own[2]) if own else None
    return _Header(text, normalize_variant(fields.get("Language", "")), plural)


def _read_plural(number: object, expression: object) -> _Plural | None:
    """Return None for forms that cannot be evaluated, such as those of `n%0`."""
    with suppress(ValueError, ZeroDivisionError):
        singular = gettext.c2py(str(expression))(1)
        forms = min(max(int(str(number)), 1), _MOST_FORMS)
        return _Plural(forms, str(expression), singular)
    return None


@cache
def _find_plural(language: str) -> _Plural:
    """Return gettext's plurals, or CLDR's if Babel's list of the former lacks the language."""
    known = PLURALS.get(language)
    found = _read_plural(*known[:2]) if known else None
    # CLDR also has rules that gettext cannot express, which raise ValueError.
    with suppress(UnknownLocaleError, ValueError):
        rule = _PLURAL.search(to_gettext(Locale.parse(language).plural_form))
        found = found or (_read_plural(rule[1], rule[2]) if rule else None)
    return found or _Plural(int(DEFAULT_PLURAL[0]), str(DEFAULT_PLURAL[1]), 0)


def find_edits(content: str) -> Iterator[Edit]:
    """Yield the edits of a catalog, in order. Raises DamagedDocument if the file is not one."""
    entries = _read_entries(content)
    first = next(entries, None)
    if first is None:
        if content.strip():
            raise DamagedDocument("The file has no msgid; expected a gettext catalog")
        return
    named = first.fields.get("msgstr") if first.is_header else None
    header = _read_header(named.text if named else "")
    end = _LINE_END.search(content)
    for entry in chain([first], entries):
        writer = _Writer(content, header, entry, end[0] if end else "\n")
        yield from writer.find_edits()


def _read_entries(content: str) -> Iterator[_Entry]:
    entry, last = _Entry(), None
    for number, line in enumerate(LINE.finditer(content), 1):
        raw = line[0].rstrip("\r\n")
        found = _FIELD.fullmatch(raw)
        is_note = not raw.strip() or raw.lstrip().startswith("#")
        if not is_note and (not found or not (found[1] or last)):
            raise DamagedDocument(f"Line {number:,} is not a line of a gettext catalog")
        starts = found is not None and found[1] in ("msgid", "msgctxt")
        if entry.translations and (is_note or starts):
            yield _check_entry(entry, number)
            entry = _Entry()
        if is_note:
            last = None
            if raw.startswith("#~"):  # an obsolete entry, with any flags before
                entry.flags.clear()
            if raw.startswith("#,"):
                entry.flags.append(line)
        elif found and found[1]:
            last = _Field(found[1], line.start(), line.start() + len(raw), [found[2]])
            is_translation = last.keyword.startswith("msgstr")
            is_late = bool(entry.translations) and not is_translation
            if last.keyword in entry.fields or is_late:
                raise _refuse(number)
            entry.fields[last.keyword] = last
            entry.translations += [last] if is_translation else []
        elif found and last:
            last.parts.append(found[2])
            last.end = line.start() + len(raw)
    if entry.fields:
        yield _check_entry(entry, content.count("\n") + 1)


def _check_entry(entry: _Entry, number: int) -> _Entry:
    """Return an entry with its texts unescaped. Raises DamagedDocument if it is incomplete."""
    if "msgid" not in entry.fields or not entry.translations:
        raise _refuse(number)
    for each in entry.fields.values():
        each.text = _ESCAPE.sub(_unescape, "".join(each.parts))
    return entry


def _refuse(number: int) -> DamagedDocument:
    return DamagedDocument(
        f"The entry before line {number:,} lacks msgid or msgstr, or repeats a keyword"
    )


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _CHARACTERS.get(code, code)


@dataclass(frozen=True)
class _Writer:
    """The writer of one entry's translations."""

    content: str
    header: _Header
    entry: _Entry
    line_end: str

    def find_edits(self) -> Iterator[Edit]:
        fields = self.entry.fields
        forms = [fields[k] for k in ("msgid", "msgid_plural") if k in fields]
        start = self.entry.translations[0].start
        end = self.entry.translations[-1].end
        is_header = self.entry.is_header
        if not is_header and not all(is_prose(form.text) for form in forms):
            return
        for line in self.entry.flags:
            yield Edit(*line.span(), (), partial(self._write_flags, line[0]))
        if is_header:
            yield Edit(start, end, (), self._write_header)
        else:
            texts = tuple(form.text.strip() for form in forms)
            yield Edit(start, end, texts, self._write_entry, self._is_done)

    def _write_header(self, _: Sequence[str], language: str) -> str:
        old = self.entry.translations[0]
        text = self.header.text
        has_forms = _PLURAL.search(text) or "msgid_plural" not in self.content
        if not text or (has_forms and self._is_done(language)):
            return self.content[old.start : old.end]
        return self._format("msgstr", self.header.write(language))

    def _is_done(self, language: str) -> bool:
        if self.entry.is_header:
            return not self.header.text or self.header.language == language
        done = all(each.text for each in self.entry.translations)
        return done and self.header.is_in(language)

    def _write_flags(self, raw: str, _: Sequence[str], language: str) -> str:
        """Return a line of flags, without `fuzzy` if the translation is replaced."""
        flags = [flag.strip() for flag in raw[2:].split(",")]
        if "fuzzy" not in flags or self._is_done(language):
            return raw
        others = ", ".join(flag for flag in flags if flag != "fuzzy")
        return f"#, {others}{self.line_end}" if others else ""

    def _write_entry(self, new: Sequence[str], language: str) -> str:
        old = self.entry.translations
        fields = self.entry.fields
        # msgfmt checks that both begin and end with the same line breaks.
        written = [surround(fields["msgid"].text, new[0])]
        if "msgid_plural" not in fields:
            is_broken = len(fields["msgid"].parts) > 1
            return self._format("msgstr", written[0], is_broken=is_broken)
        written.append(surround(fields["msgid_plural"].text, new[1]))
        plural = self.header.find_plural(language)
        is_kept = self.header.is_in(language)
        kept = {each.keyword: each.text for each in old if is_kept}
        is_broken = len(fields["msgid_plural"].parts) > 1
        lines = []
        for index in range(plural.number):
            keyword = f"msgstr[{index}]"
            is_singular = plural.number > 1 and plural.singular == index
            text = kept.get(keyword) or written[not is_singular]
            lines.append(self._format(keyword, text, is_broken=is_broken))
        return self.line_end.join(lines)

    def _format(self, keyword: str, text: str, *, is_broken: bool = False) -> str:
        """Format a field as gettext does: on one line, or on one for each line of the text;
        with `is_broken`, long lines are broken to fit."""
        pieces = [line.translate(_SIGNS) for line in text.split("\n")]
        pieces = [*(f"{piece}\\n" for piece in pieces[:-1]), *filter(None, pieces[-1:])]
        if is_broken:
            pieces = [line for piece in pieces for line in _break(piece)]
        if len(pieces) < 2:
            return f'{keyword} "{"".join(pieces)}"'
        return self.line_end.join([f'{keyword} ""', *(f'"{p}"' for p in pieces)])


def _break(line: str) -> Iterator[str]:
    part = ""
    for word in re.findall(r"\S+\s*|\s+", line):
        if part and len(part) + len(word) > _WIDTH:
            yield part
            part = ""
        part += word
    yield part


FORMAT = make_format(
    (".po", ".pot"),
    "text/x-gettext-translation",
    "text",
    read_whole(find_edits),
    declaration=_DECLARATION,
)
