"""Short names for the elements of office documents, such as `w:p`: a document may choose
other prefixes, and the strict variants of Office Open XML have other namespaces.
"""

from __future__ import annotations

from functools import lru_cache

from lxml import etree

_MICROSOFT = "http://schemas.openxmlformats.org"
_STRICT = "http://purl.oclc.org/ooxml"
_OASIS = "urn:oasis:names:tc:opendocument:xmlns"

#: By namespace. What is in another one has no short name.
_PREFIXES = {
    f"{_MICROSOFT}/wordprocessingml/2006/main": "w",
    f"{_STRICT}/wordprocessingml/main": "w",
    f"{_MICROSOFT}/drawingml/2006/main": "a",
    f"{_STRICT}/drawingml/main": "a",
    f"{_MICROSOFT}/drawingml/2006/chart": "c",
    f"{_STRICT}/drawingml/chart": "c",
    f"{_MICROSOFT}/presentationml/2006/main": "p",
    f"{_STRICT}/presentationml/main": "p",
    f"{_MICROSOFT}/spreadsheetml/2006/main": "x",
    f"{_STRICT}/spreadsheetml/main": "x",
    f"{_MICROSOFT}/package/2006/content-types": "types",
    "http://purl.org/dc/elements/1.1/": "dc",
    f"{_OASIS}:office:1.0": "office",
    f"{_OASIS}:text:1.0": "text",
    f"{_OASIS}:table:1.0": "table",
    f"{_OASIS}:drawing:1.0": "draw",
    f"{_OASIS}:style:1.0": "style",
    f"{_OASIS}:manifest:1.0": "manifest",
    f"{_OASIS}:container": "container",
    "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0": "loext",
    "http://www.idpf.org/2007/opf": "opf",
    "http://www.w3.org/1999/xhtml": "h",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx",
    "http://www.w3.org/2001/04/xmlenc#": "enc",
    "http://www.w3.org/XML/1998/namespace": "xml",
}


@lru_cache(maxsize=4096)
def shorten(name: str) -> str:
    """`w:p` for `{namespace}p`; the name itself if the namespace is none of ours."""
    namespace, _, local = name.removeprefix("{").rpartition("}")
    prefix = _PREFIXES.get(namespace)
    return f"{prefix}:{local}" if prefix else name


def name_of(element: etree._Element) -> str:
    """The short name of an element; empty for a comment or an instruction."""
    tag = element.tag
    return shorten(tag) if isinstance(tag, str) else ""


def attribute(element: etree._Element, name: str) -> str:
    """The value of the attribute with this short name, or an empty text."""
    values = (v for key, v in element.attrib.items() if shorten(str(key)) == name)
    return next((str(value) for value in values), "")


def beside(element: etree._Element, local: str) -> str:
    """The full name of what has this local name and an element's namespace."""
    return etree.QName(etree.QName(element).namespace, local).text


def describe(element: etree._Element) -> tuple[object, ...]:
    """An element without its text, as a value: the same for elements that say the same."""
    attributes = sorted((str(k), str(v)) for k, v in element.attrib.items())
    return (str(element.tag), *attributes, *map(describe, element))
