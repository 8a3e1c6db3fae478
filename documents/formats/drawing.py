"""Texts in drawings, charts and diagrams, which all documents of Office Open XML may have."""

from __future__ import annotations

from collections.abc import Sequence

from documents.formats.blocks import ElementNames
from documents.formats.format import LanguagePair
from documents.formats.fragments import Element, Part, Slot
from documents.formats.names import beside, name_of
from documents.formats.runs import (
    Copies,
    Runs,
    Style,
    find_plain_slot,
    is_right_to_left,
)


class DrawingRuns(Runs):
    """Paragraphs of shapes. A link is a property of a run."""

    run, properties, text = "a:r", "a:rPr", "a:t"
    first, last = frozenset({"a:pPr"}), frozenset({"a:endParaRPr"})
    invisible = frozenset(
        "lang altLang dirty err noProof smtClean smtId bmk kumimoji".split()
    )

    def mark(self, run: Element, languages: LanguagePair) -> None:
        """See Runs."""
        self.open_properties(run).set("lang", languages.target)

    def build(
        self,
        paragraph: Element,
        base: Style | None,
        parts: Sequence[Part],
        languages: LanguagePair,
    ) -> None:
        """See Runs; the paragraph gets the direction of the language."""
        super().build(paragraph, base, parts, languages)
        properties = next((c for c in paragraph if name_of(c) == "a:pPr"), None)
        if is_right_to_left(languages.target):
            if properties is None:
                properties = paragraph.makeelement(beside(paragraph, "pPr"))
                paragraph.insert(0, properties)
            properties.set("rtl", "1")
        elif properties is not None:
            properties.attrib.pop("rtl", None)


def find_slots(wrapper: Element) -> list[Slot]:
    """The texts of paragraphs, of a chart's labels and names, and of plain comments."""
    runs, found = DrawingRuns(Copies()), []
    for element in wrapper.iter():
        name = name_of(element)
        if name == "a:p":
            found.append(runs.find_slot(element))
        elif name in ("c:v", "p:text", "dc:title"):
            found.append(find_plain_slot(element))
    return [slot for slot in found if slot]


#: Parts with shapes. Numbers in a chart's cache are elsewhere.
SHAPES = ElementNames(frozenset({"a:p", "c:strCache", "p:text"}), find_slots)
TITLE = ElementNames(frozenset({"dc:title"}), find_slots)
