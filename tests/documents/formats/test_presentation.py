"""Presentations: slides, notes, charts and layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents.formats.format import LanguagePair
from documents.formats.presentation import FORMAT
from tests.documents.formats.packing import mark, pack_openxml, translate, unpack

A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
MAIN = "presentationml.presentation.main+xml"
SLIDE = "presentationml.slide+xml"
LAYOUT = "presentationml.slideLayout+xml"


def pack_pptx(folder: Path, inner: str, kind: str = SLIDE) -> Path:
    part = f'<p:sld xmlns:a="{A}" xmlns:p="{P}" xmlns:r="urn:r">{inner}</p:sld>'
    parts = {"ppt/presentation.xml": (MAIN, "<p/>"), "ppt/a.xml": (kind, part)}
    return pack_openxml(folder / "a.pptx", parts)


def run(text: str, properties: str = "") -> str:
    return f"<a:r>{properties}<a:t>{text}</a:t></a:r>"


LINK = '<a:rPr lang="en-US"><a:hlinkClick r:id="r1"/></a:rPr>'
CASES = {
    "one run": (run("Hello"), ["Hello"]),
    "bold": (run("Press ") + run("Go", '<a:rPr b="1"/>'), ['Press <g id="1">Go</g>']),
    "a language and a spelling mark": (
        run("Hel", '<a:rPr lang="en-US" dirty="0"/>') + run("lo", '<a:rPr err="1"/>'),
        ["Hello"],
    ),
    "a link": (run("See ") + run("it", LINK), ['See <g id="1">it</g>']),
    "a break": (run("one") + "<a:br/>" + run("two"), ['one<x id="1"/>two']),
    "a number of a slide": (
        run("Slide ") + '<a:fld type="slidenum"><a:t>7</a:t></a:fld>' + run(" of all"),
        ['Slide <x id="1"/> of all'],
    ),
    "properties around": ("<a:pPr/>" + run("Hello") + "<a:endParaRPr/>", ["Hello"]),
    "numbers": (run("12"), []),
}


@pytest.mark.parametrize(("paragraph", "texts"), CASES.values(), ids=CASES)
def test_a_paragraph_is_one_text(tmp_path: Path, paragraph: str, texts: list[str]):
    source = pack_pptx(tmp_path, f"<a:p>{paragraph}</a:p>")
    assert list(FORMAT.read(source, "de")) == texts
    written = translate(FORMAT, source, mark)
    assert list(FORMAT.read(written, "de")) == [mark(text) for text in texts]
    assert unpack(translate(FORMAT, source, str)) == unpack(source)


@pytest.mark.parametrize(
    ("target", "properties"),
    [
        pytest.param("de", '<a:pPr lvl="1"/>', id="to the right"),
        pytest.param("ar", '<a:pPr lvl="1" rtl="1"/>', id="to the left"),
    ],
)
def test_what_is_written_says_its_language_and_direction(
    tmp_path: Path, target: str, properties: str
):
    old = '<a:pPr rtl="0" lvl="1"/>' + run("Hello", LINK) + "<a:endParaRPr/>"
    source = pack_pptx(tmp_path, f"<a:p>{old}</a:p>")
    written = translate(FORMAT, source, lambda _: "T", LanguagePair("en", target))
    link = LINK.replace("en-US", target)
    new = f"<a:p>{properties}{run('T', link)}<a:endParaRPr/></a:p>"
    written_slide = unpack(written)["ppt/a.xml"].decode()
    assert new in written_slide.replace('rtl="1" lvl="1"', 'lvl="1" rtl="1"')


def test_a_layout_has_fixed_texts_and_prompts(tmp_path: Path):
    shapes = (
        f"<p:sp><p:nvPr><p:ph/></p:nvPr><a:p>{run('Click to edit')}</a:p></p:sp>"
        f"<p:sp><p:nvPr/><a:p>{run('For internal use')}</a:p></p:sp>"
    )
    assert list(FORMAT.read(pack_pptx(tmp_path, shapes, LAYOUT), "de")) == [
        "For internal use"
    ]
