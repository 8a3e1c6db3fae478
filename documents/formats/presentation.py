"""Presentations (.pptx): slides, speaker notes, comments, and fixed texts of the layouts."""

from __future__ import annotations

from documents.formats.blocks import ElementNames
from documents.formats.fragments import Element, Slot, name_of
from documents.formats.openxml import SHAPES, find_slots, make_plan
from documents.formats.packages import make_package_format


def _find_fixed(wrapper: Element) -> list[Slot]:
    """A placeholder's text is a prompt that no slide shows."""
    if any(name_of(element) == "p:ph" for element in wrapper.iter()):
        return []
    return find_slots(wrapper)


_LAYOUT = ElementNames(frozenset({"p:sp"}), _find_fixed)
_PLAN = make_plan(
    "presentationml",
    "presentation.main",
    {
        "slide": SHAPES,
        "notesSlide": SHAPES,
        "comments": SHAPES,
        "slideLayout": _LAYOUT,
        "slideMaster": _LAYOUT,
    },
)

FORMAT = make_package_format(
    ".pptx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    _PLAN,
)
