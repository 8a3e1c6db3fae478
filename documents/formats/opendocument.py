"""OpenDocument (.odt, .ods, .odp): paragraphs of bodies, tables, notes, comments, headers and
footers, text boxes and charts.
"""

from collections.abc import Mapping, Set

from documents.errors import EncryptedDocument
from documents.formats.blocks import TITLE, ElementNames
from documents.formats.flows import ElementKind, ElementRole, TextFlow
from documents.formats.format import Format
from documents.formats.fragments import (
    Element,
    Slot,
    attribute,
    describe,
    find_plain_slots,
    name_of,
)
from documents.formats.packages import Package, make_package_format

_MEDIA_TYPE = "application/vnd.oasis.opendocument."
_MANIFEST = "META-INF/manifest.xml"
_PARAGRAPHS = frozenset({"text:p", "text:h"})
#: The header and the footer of all slides and notes.
_DECLARED = frozenset({"presentation:header-decl", "presentation:footer-decl"})
_STYLES, _CELL = "office:automatic-styles", "table:table-cell"
_VALUE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}string-value"
#: The element with the heading of a column that a pivot table shows, and its attribute.
_COLUMN = ("table:data-pilot-field", "table:source-field-name")
#: The number of the revision that created a style.
_INVISIBLE = frozenset({"officeooo:rsid"})
#: Deleted text.
_SKIPPED = frozenset({"text:tracked-changes", "table:tracked-changes"})
_ROLES = {
    **dict.fromkeys(("text:a", "text:meta", "loext:content-control"), ElementRole.SPAN),
    **dict.fromkeys(("text:ruby", "text:ruby-base"), ElementRole.CLEAR),
    **dict.fromkeys(("text:soft-page-break", "text:ruby-text"), ElementRole.STALE),
}


class _Texts:
    """The texts of one part. Its automatic styles come before its paragraphs."""

    def __init__(self, headings: Set[str]) -> None:
        self._headings = headings
        #: The look of automatic text styles, by name: a number that is equal for styles that
        #: look the same, and 0 for styles without a visible effect.
        self._looks: dict[str, int] = {}
        self._numbers: dict[tuple[object, ...], int] = {(): 0}
        self._flow = TextFlow(self._classify)

    def find_slots(self, wrapper: Element) -> list[Slot]:
        if name_of(wrapper[0]) == _STYLES:
            self._learn(wrapper[0])
            return []
        if name_of(wrapper[0]) in _DECLARED:
            return find_plain_slots(wrapper[0])
        return [
            _make_value_follow(paragraph, slot)
            for paragraph in wrapper.iter()
            if name_of(paragraph) in _PARAGRAPHS and not self._is_kept(paragraph)
            for slot in self._flow.find_slots(paragraph)
        ]

    def _learn(self, styles: Element) -> None:
        """Number the looks of styles. Editors create styles that only record when a piece of
        text was written: those have no visible effect."""
        for style in styles:
            if attribute(style, "style:family") == "text":
                parent = attribute(style, "style:parent-style-name")
                shown = (describe(properties, _INVISIBLE) for properties in style)
                looks = [each for each in shown if each[1:]]
                look = (parent, *looks) if parent else (*looks,)
                name = attribute(style, "style:name")
                self._looks[name] = self._numbers.setdefault(look, len(self._numbers))

    def _is_kept(self, paragraph: Element) -> bool:
        """Whether a paragraph is a formula's result, a cell's number or date, or the heading of
        a column by which a pivot table finds it."""
        cell = paragraph.getparent()
        if cell is None or name_of(cell) != _CELL:
            return False
        kind = attribute(cell, "office:value-type") or "string"
        is_text = kind == "string" and paragraph.text not in self._headings
        return bool(attribute(cell, "table:formula")) or not is_text

    def _classify(self, element: Element) -> ElementKind:
        name = name_of(element)
        if name != "text:span":
            return ElementKind(_ROLES.get(name, ElementRole.ATOM))
        style = attribute(element, "text:style-name")
        look = self._looks.get(style, style)
        return ElementKind(ElementRole.SPAN if look else ElementRole.CLEAR, look)


def _make_value_follow(paragraph: Element, slot: Slot) -> Slot:
    """Delete the attribute in which a cell may repeat its text when the text changes. Programs
    prefer the attribute; without it, they read the paragraphs."""
    cell = paragraph.getparent()
    if cell is None or name_of(cell) != _CELL:
        return slot

    def write(translation: str, language: str) -> None:
        slot.write(translation, language)
        cell.attrib.pop(_VALUE, None)

    return Slot(slot.text, write)


def _make_format(suffix: str, kind: str) -> Format:
    def plan(package: Package) -> Mapping[str, ElementNames]:
        package.check_type(_MEDIA_TYPE + kind)
        if package.list_values(_MANIFEST, "manifest:encryption-data", ""):
            raise EncryptedDocument
        vocabularies = {"meta.xml": TITLE}
        headings = set[str]()
        if kind == "spreadsheet" and package.has("content.xml"):
            headings = package.list_values("content.xml", *_COLUMN)
        for member in package.infolist():
            folder, _, name = member.filename.rpartition("/")
            is_part = name == "content.xml" or (name == "styles.xml" and not folder)
            if is_part and not folder.startswith("META-INF"):
                blocks = _PARAGRAPHS | _DECLARED | {_STYLES, _CELL}
                vocabularies[member.filename] = ElementNames(
                    blocks,
                    _Texts(headings).find_slots,
                    lambda name, _: name in _SKIPPED,
                )
        return vocabularies

    return make_package_format(suffix, _MEDIA_TYPE + kind, plan)


FORMATS = (
    _make_format(".odt", "text"),
    _make_format(".ods", "spreadsheet"),
    _make_format(".odp", "presentation"),
)
