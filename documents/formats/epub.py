"""Books (.epub): their chapters, tables of contents and titles."""

import posixpath
from collections.abc import Mapping
from urllib.parse import unquote

from contract.markup import INLINE, VOID
from documents.errors import DamagedDocument, EncryptedDocument
from documents.formats.blocks import ElementNames
from documents.formats.flows import ElementKind, ElementRole, TextFlow
from documents.formats.format import is_right_to_left, name_language
from documents.formats.fragments import Element, Slot, find_plain_slots, name_of
from documents.formats.packages import Package, make_package_format

_MEDIA_TYPE = "application/epub+zip"
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
#: These only obfuscate fonts; the texts need no key.
_FONT_METHODS = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_ATOMS = frozenset(
    """audio br button canvas code img input kbd map math meter noscript object output picture
    progress samp script select style svg template textarea video wbr""".split()
)
_KEPT = frozenset("head pre hr".split())
_RUBY = {
    **dict.fromkeys(("ruby", "rb"), ElementRole.CLEAR),
    **dict.fromkeys(("rt", "rp", "rtc"), ElementRole.STALE),
}
_INLINE = INLINE | _ATOMS


class _Chapters:
    """The texts of chapters, one after the other."""

    def __init__(self) -> None:
        #: Elements that contain a block, and so are in no sentence.
        self._holders: set[Element] = set()
        self._flow = TextFlow(self._classify)

    def find_slots(self, wrapper: Element) -> list[Slot]:
        elements = list(wrapper.iter())
        self._holders.clear()
        for element in elements:
            if _is_block(name_of(element)):
                self._hold(element.getparent())
        if self._classify(wrapper[0]).role is ElementRole.KEPT:
            return []
        titles = [e for e in elements if name_of(e) == "h:title"]
        slots = [slot for title in titles for slot in find_plain_slots(title)]
        return [*slots, *self._flow.find_slots(wrapper[0])]

    def _hold(self, parent: Element | None) -> None:
        while parent is not None and parent not in self._holders:
            self._holders.add(parent)
            parent = parent.getparent()

    def _classify(self, element: Element) -> ElementKind:
        namespace, _, name = name_of(element).rpartition(":")
        is_marked = "notranslate" in (element.get("class") or "").split()
        is_fixed = is_marked or element.get("translate") == "no"
        is_inline = element not in self._holders and not _is_block(name_of(element))
        if is_fixed or name in _KEPT:
            return ElementKind(ElementRole.ATOM if is_inline else ElementRole.KEPT)
        if namespace != "h" or name in _ATOMS:
            return ElementKind(ElementRole.ATOM)
        if not is_inline:
            return ElementKind(ElementRole.BLOCK)
        return ElementKind(_RUBY.get(name, ElementRole.SPAN))

    def finish(self, wrapper: Element, language: str) -> bool:
        """Keep the end tags of empty elements, as some readers parse XHTML as HTML."""
        for element in wrapper[0].iter():
            namespace, _, name = name_of(element).rpartition(":")
            if namespace == "h" and name not in VOID and not len(element):
                element.text = element.text or ""
        return _mark(wrapper[0], language)


def _is_block(name: str) -> bool:
    """Whether an element separates sentences."""
    namespace, _, local = name.rpartition(":")
    return namespace == "h" and local not in _INLINE


def _find_title(wrapper: Element) -> list[Slot]:
    is_text = name_of(wrapper[0]) != "dc:language"
    return find_plain_slots(wrapper[0]) if is_text else []


def _mark(html: Element, language: str) -> bool:
    """Set the language and direction of a chapter, of its head and of its body. Return whether
    that changes it."""
    elements = (html, *html)
    is_rtl = is_right_to_left(language)
    before = [dict(element.attrib) for element in elements]
    for element in elements:
        for name in (_LANG, "lang"):
            if old := element.get(name):
                element.set(name, name_language(old, language))
        if is_rtl and (element is html or element.get("dir")):
            element.set("dir", "rtl")
        elif element.get("dir") == "rtl":
            del element.attrib["dir"]
    return [dict(element.attrib) for element in elements] != before


def _finish_metadata(wrapper: Element, language: str) -> bool:
    element = wrapper[0]
    old = wrapper[0].text or ""
    if name_of(element) == "dc:language":
        element.text = name_language(old, language)
    return (element.text or "") != old


_NCX = ElementNames(frozenset({"ncx:text"}), _find_title)
_METADATA = ElementNames(
    frozenset({"dc:title", "dc:language"}), _find_title, finish=_finish_metadata
)


def _plan(package: Package) -> Mapping[str, ElementNames]:
    package.check_type(_MEDIA_TYPE)
    _check_encryption(package)
    texts = _Chapters()
    chapters = ElementNames(
        frozenset({"h:html"}), texts.find_slots, finish=texts.finish
    )
    kinds = {"application/xhtml+xml": chapters, "application/x-dtbncx+xml": _NCX}
    vocabularies: dict[str, ElementNames] = {}
    for path in package.list_values(_CONTAINER, "container:rootfile", "full-path"):
        vocabularies[path] = _METADATA
        folder = posixpath.dirname(path)
        for item in package.list_elements(path, "opf:item"):
            href = unquote(item.get("href") or "")
            name = posixpath.normpath(posixpath.join(folder, href))
            kind = kinds.get(item.get("media-type") or "")
            if kind and package.has(name):
                vocabularies[name] = kind
    if not vocabularies:
        raise DamagedDocument(f"{_CONTAINER} does not name a book")
    return vocabularies


def _check_encryption(package: Package) -> None:
    if package.has(_ENCRYPTION):
        used = package.list_values(_ENCRYPTION, "enc:EncryptionMethod", "Algorithm")
        if used - _FONT_METHODS:
            raise EncryptedDocument("The book is protected by DRM and cannot be read")


FORMAT = make_package_format(".epub", _MEDIA_TYPE, _plan)
