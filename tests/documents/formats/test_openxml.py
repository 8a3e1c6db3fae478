"""Office Open XML: the texts of a paragraph, and the places of their translations."""

import re
from pathlib import Path

import pytest

from tests.documents.formats import paragraphs
from tests.documents.formats.packing import (
    LAYOUT,
    W,
    X,
    find_group,
    pack,
    pack_docx,
    pack_pptx,
    pack_xlsx,
    unpack,
)
from tests.documents.formats.paragraphs import BOLD, LINK, SHAPE_LINK, TWICE, run, shape
from tests.documents.formats.samples import make_xlsx
from tests.documents.formats.translating import keep, read, shout, translate

CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"
WORD_2012 = "http://schemas.microsoft.com/office/word/2012/wordml"
CHART_2012 = "http://schemas.microsoft.com/office/drawing/2012/chart"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"


def test_a_box_for_old_and_new_programs_has_the_same_translation():
    written = translate("a.docx", pack_docx(TWICE), shout)
    assert unpack(written)["word/document.xml"].count(b"IN A BOX") == 2


def test_a_control_shows_its_translation_instead_of_a_property():
    binding = "<w:sdtPr><w:dataBinding/></w:sdtPr>"
    bound = paragraphs.CONTROL.replace("<w:sdtPr/>", binding)
    whole = bound.replace("<w:r>", "<w:p><w:r>").replace("</w:r>", "</w:r></w:p>")
    whole = whole.replace("w:dataBinding", f'dataBinding xmlns="{WORD_2012}"')
    written = translate("a.docx", pack_docx(f"{bound}</w:p>{whole}<w:p>"), shout)
    document = unpack(written)["word/document.xml"]
    assert (document.count(b"A CHOICE"), document.count(b"Binding")) == (2, 0)


def write_paragraph(paragraph: str, text: str, target: str) -> str:
    """Translate a paragraph to this text, and return its XML."""
    written = translate("a.docx", pack_docx(paragraph), lambda _: text, target)
    document = unpack(written)["word/document.xml"].decode()
    return document.split("<w:body>")[1].split("</w:body>")[0].replace(PRESERVE, "")


PRESERVE = ' xml:space="preserve"'


def test_words_change_places_and_keep_their_formats():
    paragraph = run("Press ", "<w:i/>") + run("Go", BOLD) + LINK
    text = '<g id="2">La page</g> : <g id="1">Va</g> !'
    written = write_paragraph(paragraph, text, "fr")
    lang = '<w:lang w:val="fr"/>'
    assert written == (
        '<w:p><w:hyperlink r:id="r1">'
        f"<w:r><w:rPr><w:u/>{lang}</w:rPr><w:t>La page</w:t></w:r></w:hyperlink>"
        f"<w:r><w:rPr><w:i/>{lang}</w:rPr><w:t> : </w:t></w:r>"
        f"<w:r><w:rPr><w:b/>{lang}</w:rPr><w:t>Va</w:t></w:r>"
        f"<w:r><w:rPr><w:i/>{lang}</w:rPr><w:t> !</w:t></w:r></w:p>"
    )


def test_the_arms_of_a_message_may_repeat_a_link_and_a_control():
    paragraph = run("{n, plural, other {") + LINK + paragraphs.CONTROL + run("}}")
    arm = '<g id="1">A</g><g id="2">B</g>'
    written = write_paragraph(paragraph, f"{{few {{{arm}}} other {{{arm}}}}}", "ru")
    found = re.findall("<w:hyperlink|<w:sdtContent|<w:t>[AB]", written)
    assert found == 2 * ["<w:hyperlink", "<w:t>A", "<w:sdtContent", "<w:t>B"]


@pytest.mark.parametrize(
    ("target", "properties"),
    [
        ("de", '<w:lang w:val="de" w:bidi="x"/>'),
        ("ja", '<w:lang w:val="en-US" w:bidi="x" w:eastAsia="ja"/>'),
        ("zh-Hant", '<w:lang w:val="en-US" w:bidi="x" w:eastAsia="zh-Hant"/>'),
        ("he", '<w:rtl/><w:lang w:val="en-US" w:bidi="he"/>'),
    ],
)
def test_a_run_says_its_language_and_its_direction(target, properties):
    paragraph = run("Hello", '<w:lang w:val="en-US" w:bidi="x"/>')
    written = write_paragraph(paragraph, "T", target)
    direction = "<w:pPr><w:bidi/></w:pPr>" if target == "he" else ""
    expected = f"{direction}<w:r><w:rPr>{properties}</w:rPr><w:t>T</w:t></w:r>"
    assert written == f"<w:p>{expected}</w:p>"


def test_no_style_keeps_the_direction_of_the_old_language():
    paragraph = f"<w:pPr><w:bidi/><w:jc/></w:pPr>{run('Hello', '<w:rtl/>')}"
    written = write_paragraph(paragraph, "T", "en")
    assert '<w:pPr><w:bidi w:val="0"/><w:jc/></w:pPr>' in written
    assert '<w:rPr><w:rtl w:val="0"/>' in written


def test_the_direction_has_the_place_that_the_schema_gives_it():
    paragraph = f"<w:pPr><w:keepNext/><w:jc/></w:pPr>{run('Hello')}"
    written = write_paragraph(paragraph, "T", "ar")
    assert "<w:pPr><w:keepNext/><w:bidi/><w:jc/></w:pPr>" in written


def test_a_strict_document_is_read_and_stays_strict():
    source = pack_docx(run("Hello"), STRICT)
    written = unpack(translate("a.docx", source, shout))["word/document.xml"].decode()
    assert "HELLO" in written
    assert W not in written


def test_an_instruction_may_be_in_pieces_and_long():
    cut = "</w:instrText></w:r><w:r><w:instrText>"
    instruction = cut.join(["", " HYPER", "LINK ", "u" * 90, " TOC"])
    source = pack_docx(paragraphs.field(instruction, run("the page")))
    assert read("a.docx", source) == ["the page"]


@pytest.mark.parametrize(("target", "rtl"), [("de", 0), ("ar", 1)])
def test_what_is_written_says_its_language_and_direction(target, rtl):
    frame = '<a:p><a:pPr rtl="{}" lvl="1"/>{}<a:endParaRPr/></a:p>'
    old = frame.format(1 - rtl, shape("Hello", SHAPE_LINK))
    written = translate("a.pptx", pack_pptx(old), lambda _: "T", target)
    new = frame.format(rtl, shape("T", SHAPE_LINK.replace("en-US", target)))
    assert new in unpack(written)["ppt/a.xml"].decode()


def test_a_layout_has_fixed_texts_and_prompts():
    shapes = (
        f"<p:sp><p:nvPr><p:ph/></p:nvPr><a:p>{shape('Click to edit')}</a:p></p:sp>"
        f"<p:sp><p:nvPr/><a:p>{shape('For internal use')}</a:p></p:sp>"
    )
    assert read("a.pptx", pack_pptx(shapes, LAYOUT)) == ["For internal use"]


CHARTS = find_group("charts")["rows"]


@pytest.mark.parametrize(("inner", "texts"), CHARTS.values(), ids=CHARTS)
def test_a_chart_has_labels(inner, texts):
    chart = f'<x xmlns:c="{CHART}" xmlns:c15="{CHART_2012}">{inner}</x>'
    assert read("a.pptx", pack_pptx(chart, "drawingml.chart+xml")) == texts


def test_a_chart_of_the_kinds_since_2016_has_labels():
    chart = (
        '<x xmlns:cx="http://schemas.microsoft.com/office/drawing/2014/chartex">'
        "<cx:strDim><cx:f>A1</cx:f><cx:lvl><cx:pt>One</cx:pt></cx:lvl></cx:strDim>"
        "<cx:numDim><cx:lvl><cx:pt>E1</cx:pt></cx:lvl></cx:numDim>"
        "<cx:txData><cx:f>B1</cx:f><cx:v>Two</cx:v></cx:txData></x>"
    )
    parts = unpack(pack_pptx(chart, "chartex+xml"))
    types, office = "[Content_Types].xml", b"ms-office.chartex+xml"
    parts[types] = re.sub(rb"openxml[\w.-]+chartex\+xml", office, parts[types])
    assert read("a.pptx", pack(parts)) == ["One", "Two"]


@pytest.mark.parametrize(("inner", "texts", "written"), find_group("a.xlsx")["cells"])
@pytest.mark.parametrize("place", ["strings", "sheet"])
def test_a_cell_is_one_text(inner, texts, written, place):
    name = "si" if place == "strings" else "is"
    source = pack_xlsx(**{place: f"<{name}>{inner}</{name}>"})
    assert read("a.xlsx", source) == texts
    assert unpack(translate("a.xlsx", source, keep)) == unpack(source)
    after = unpack(translate("a.xlsx", source, shout))[f"{place}.xml"].decode()
    assert f"<{name}>{inner if written is None else written}</{name}>" in after


@pytest.mark.parametrize("cell", ["is><t>{}</t></is", "v>{}</v"])
def test_a_cell_may_contain_its_text(cell):
    sheet = f'<c t="{"str" if cell[0] == "v" else "inlineStr"}"><{cell}></c><c t="s"/>'
    written = translate("a.xlsx", pack_xlsx(sheet=sheet.format("a b")), shout)
    assert sheet.format("A B") in unpack(written)["sheet.xml"].decode()


def test_formulas_and_their_results_stay():
    cells = '<c t="str"><f>IF(A1="Yes","a","b")</f><v>a text</v></c>'
    assert read("a.xlsx", pack_xlsx(sheet=cells)) == []


def test_the_headings_of_tables_stay():
    columns = '<tableColumn name="Net_x000a_price"/><tableColumn name="Name"/>'
    names = "<si><t>Name</t><rPh><t>ru</t></rPh></si><si><t>Net\nprice</t></si>"
    source = pack_xlsx(strings=f"{names}<si><t>Names</t></si>", table=columns)
    assert read("a.xlsx", source) == ["Names"]


def test_the_headings_that_a_pivot_table_shows_stay():
    field = f'<a:cacheField xmlns:a="{X}" name="Region"/>'
    parts = unpack(pack_xlsx(strings="<si><t>Region</t></si><si><t>East</t></si>"))
    types = "[Content_Types].xml"
    parts[types] = parts[types].replace(b".table+", b".pivotCacheDefinition+")
    assert read("a.xlsx", pack(parts | {"table.xml": field.encode()})) == ["East"]


def test_only_the_parts_with_texts_change(tmp_path: Path):
    source = make_xlsx(tmp_path / "a.xlsx").read_bytes()
    before, after = unpack(source), unpack(translate("a.xlsx", source, shout))
    assert list(after) == list(before)
    assert {name for name in before if before[name] != after[name]} == {
        "xl/sharedStrings.xml",
        "xl/comments1.xml",
        "xl/charts/chart1.xml",
        "xl/drawings/drawing1.xml",
        "docProps/core.xml",
    }
