"""OpenDocument (.odt, .ods, .odp): paragraphs of bodies, tables, notes, comments, headers and
footers, text boxes and charts.
"""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from documents.errors import DamagedDocument, EncryptedDocument, RefusedContent
from documents.formats.blocks import Attributes, Vocabulary
from documents.formats.flows import Flow, Kind, Role
from documents.formats.format import Format
from documents.formats.fragments import Element, Slot
from documents.formats.names import attribute, name_of, shorten
from documents.formats.packages import Package, Plan, make_read, make_write
from documents.formats.runs import find_plain_slot

_MEDIA_TYPE = "application/vnd.oasis.opendocument."
_MANIFEST = "META-INF/manifest.xml"
_PARAGRAPHS = frozenset({"text:p", "text:h"})
_STYLES = "office:automatic-styles"
_SKIPPED = frozenset({"text:tracked-changes", "table:tracked-changes"})
_CLEAR = frozenset({"text:ruby", "text:ruby-base"})
_STALE = frozenset({"text:soft-page-break", "text:ruby-text"})


class _Texts:
    """The texts of one part. Its automatic styles come before its paragraphs."""

    def __init__(self) -> None:
        #: What automatic styles of text look like, by name.
        self._looks: dict[str, tuple[bytes, ...]] = {}
        self._flow = Flow(self._classify, links=frozenset({"text:a"}))

    def find_slots(self, wrapper: Element) -> list[Slot]:
        """See Vocabulary."""
        if name_of(wrapper[0]) == _STYLES:
            self._learn(wrapper[0])
            return []
        paragraphs = (p for p in wrapper.iter() if name_of(p) in _PARAGRAPHS)
        return [slot for p in list(paragraphs) for slot in self._flow.find_slots(p)]

    def _learn(self, styles: Element) -> None:
        """Editors give pieces of a text styles of their own, which only say when they were
        written: those look like nothing."""
        for style in styles:
            if attribute(style, "style:family") == "text":
                name = attribute(style, "style:name")
                self._looks[name] = tuple(
                    etree.tostring(_strip(child), method="c14n", exclusive=True)
                    for child in style
                    if child.attrib.keys() != _find_revisions(child) or len(child)
                )

    def _classify(self, element: Element) -> Kind:
        name = name_of(element)
        if name == "text:a":
            return Kind(Role.SPAN)
        if name != "text:span":
            role = Role.STALE if name in _STALE else Role.ATOM
            return Kind(Role.CLEAR if name in _CLEAR else role)
        style = attribute(element, "text:style-name")
        look = self._looks.get(style, style)
        return Kind(Role.SPAN, look) if look else Kind(Role.CLEAR)


def _find_revisions(properties: Element) -> list[str]:
    return [str(name) for name in properties.attrib if str(name).endswith("}rsid")]


def _strip(properties: Element) -> Element:
    """A style's properties without the numbers of revisions."""
    copied = etree.Element(properties.tag, dict(properties.attrib))
    for name in _find_revisions(properties):
        del copied.attrib[name]
    return copied


def _find_title(wrapper: Element) -> list[Slot]:
    slot = find_plain_slot(wrapper[0])
    return [slot] if slot else []


def _is_skipped(name: str, attributes: Attributes) -> bool:
    """Deleted texts, results of formulas, and cells with numbers or dates."""
    if name != "table:table-cell":
        return name in _SKIPPED
    known = {shorten(key): value for key, value in attributes.items()}
    kind = known.get("office:value-type", "string")
    return "table:formula" in known or kind != "string"


def _make_plan(kind: str) -> Plan:
    def plan(package: Package) -> Mapping[str, Vocabulary]:
        _check(package, kind)
        vocabularies = {
            "meta.xml": Vocabulary(frozenset({"dc:title"}), _find_title),
        }
        for member in package.members:
            folder, _, name = member.filename.rpartition("/")
            is_part = name == "content.xml" or (name == "styles.xml" and not folder)
            if is_part and not folder.startswith("META-INF"):
                find_slots = _Texts().find_slots
                vocabularies[member.filename] = Vocabulary(
                    _PARAGRAPHS | {_STYLES}, find_slots, _is_skipped
                )
        return vocabularies

    return plan


def _check(package: Package, kind: str) -> None:
    expected = _MEDIA_TYPE + kind
    if package.read_start("mimetype") != expected:
        raise DamagedDocument(f"not what its name says: its mimetype is not {expected}")
    for entry in package.list_elements(_MANIFEST, "manifest:file-entry"):
        if any(name_of(child) == "manifest:encryption-data" for child in entry):
            raise EncryptedDocument(
                "the document is encrypted: save it without password"
            )
    for member in package.members:
        if member.filename.startswith(("Basic/", "Scripts/")):
            raise RefusedContent("the document has macros: save it without")


def _make_format(suffix: str, kind: str) -> Format:
    plan = _make_plan(kind)
    return Format(
        suffixes=(suffix,),
        media_type=_MEDIA_TYPE + kind,
        markup="xml",
        read=make_read(plan),
        write=make_write(plan),
    )


FORMATS = (
    _make_format(".odt", "text"),
    _make_format(".ods", "spreadsheet"),
    _make_format(".odp", "presentation"),
)
