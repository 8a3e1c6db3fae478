"""Documents made with third-party libraries, covering the features of their formats."""

import io
from pathlib import Path

import docx
import odfdo
import pptx
import xlsxwriter
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.shared import Inches as DocxInches
from PIL import Image
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from tests.documents.formats.packing import W, find_group


def make_image() -> io.BytesIO:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), "teal").save(out, "PNG")
    out.seek(0)
    return out


def make_docx(path: Path) -> Path:
    """Write sections, lists, images, merged cells, a comment and runs of all kinds."""
    document = docx.Document()
    document.core_properties.title = "The title"
    document.sections[0].header.paragraphs[0].text = "The header"
    document.sections[0].footer.paragraphs[0].text = "The footer"
    paragraph = document.add_paragraph("Press the key.")
    paragraph.add_run().add_break(WD_BREAK.PAGE)
    document.add_comment(paragraph.runs, "A remark", "Ann")
    for number in range(3):
        document.add_heading(f"Chapter {number}", 1)
        paragraph = document.add_paragraph("An ordinary sentence with ")
        paragraph.add_run("bold").bold = True
        paragraph.add_run(", ")
        paragraph.add_run("italic").italic = True
        paragraph.add_run(" and underlined").underline = True
        paragraph.add_run(" words.")
        document.add_paragraph("A numbered point", "List Number")
        document.add_paragraph("A quotation, set apart.", "Intense Quote")
        document.add_paragraph().add_run().add_picture(make_image(), DocxInches(1))
        table = document.add_table(2, 3, "Light Grid Accent 1")
        table.cell(0, 0).merge(table.cell(0, 2)).text = "Across all columns"
        for column in range(3):
            table.cell(1, column).text = f"Column {column}" if column else "42"
        document.add_section()
    document.save(str(path))
    return path


def make_pptx(path: Path) -> Path:
    """Write slides with levels, formats, images, a table and a chart."""
    deck = pptx.Presentation()
    deck.core_properties.title = "The title"
    for number in range(3):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        assert slide.shapes.title
        slide.shapes.title.text = f"Slide {number}"
        frame = slide.placeholders[1].text_frame
        frame.text = "The first level"
        paragraph = frame.add_paragraph()
        paragraph.level = 1
        for text, is_bold in (("with a ", False), ("bold", True), (" word", False)):
            run = paragraph.add_run()
            run.text, run.font.bold = text, is_bold
        link = frame.add_paragraph().add_run()
        link.text, link.hyperlink.address = "the page", "https://example.com/"
        slide.shapes.add_picture(make_image(), Inches(7), Inches(5))
    slide.notes_slide.notes_text_frame.text = "Say hello"
    at, size = (Inches(1), Inches(1)), (Inches(4), Inches(3))
    slide.shapes.add_table(1, 1, *at, *size).table.cell(0, 0).text = "A cell"
    data = CategoryChartData()
    data.categories = ["East", "2024"]
    data.add_series("Sales", (1, 2))
    kind = XL_CHART_TYPE.COLUMN_CLUSTERED
    chart = slide.shapes.add_chart(kind, *at, *size, data).chart
    chart.chart_title.text_frame.text = "A chart"
    deck.save(str(path))
    return path


def make_xlsx(path: Path) -> Path:
    """Write two sheets with formats, formulas, a table, a chart and a comment."""
    book = xlsxwriter.Workbook(str(path))
    book.set_properties({"title": "The title"})
    data, view = book.add_worksheet("Data"), book.add_worksheet("View")
    header = book.add_format({"bold": True, "bg_color": "#dddddd"})
    data.write_formula("D2", '=IF(B2>1,"Yes","No")', value="Yes")
    data.write_rich_string("D3", "Press the ", book.add_format({"bold": True}), "key")
    data.write_comment("A1", "A remark")
    data.insert_textbox("I1", "A box")
    columns = [{"header": "Fruit"}, {"header": "Count"}]
    data.add_table("F1:G2", {"columns": columns, "data": [["Apple", 1]]})
    chart = book.add_chart({"type": "column"})
    chart.add_series({"values": "=Data!$G$2:$G$2"})
    chart.set_title({"name": "A chart"})
    data.insert_chart("I9", chart)
    data.write_row("A1", ["Article", "Amount"], header)
    for row in range(1, 30):
        data.write_row(row, 0, [f"Article number {row}", row * 1.5])
    data.data_validation("C2", {"validate": "list", "source": ["Open", "Closed"]})
    data.conditional_format("B2:B30", {"type": "3_color_scale"})
    view.merge_range("A1:D1", "The sum of all articles", header)
    view.write_formula("A2", "=SUM(Data!B2:B30)", value=652.5)
    view.insert_image("A4", "image.png", {"image_data": make_image()})
    view.write_url("A3", "https://example.com/", string="the page")
    book.close()
    return path


def save(path: Path, kind: str, *elements: odfdo.Element) -> Path:
    document = odfdo.Document(kind)
    document.body.clear()
    for element in elements:
        document.body.append(element)
    document.save(str(path))
    return path


def make_odt(path: Path) -> Path:
    paragraph = odfdo.Paragraph("Press the key now.")
    paragraph.insert_note(after="key", note_id="n1", citation="1", body="A note")
    points = odfdo.List(["One point", "Another point"])
    table = odfdo.Table("Prices", width=1, height=1)
    table.set_value("A1", "A cell")
    return save(path, "text", odfdo.Header(1, "A heading"), paragraph, points, table)


def make_ods(path: Path) -> Path:
    table = odfdo.Table("Prices")
    table.set_values([["Article", "Amount"], ["Apples", 3], ["Pears", 4]])
    return save(path, "spreadsheet", table)


def make_odp(path: Path) -> Path:
    page = odfdo.DrawPage("p1", "First")
    size, position = ("10cm", "3cm"), ("2cm", "2cm")
    page.append(odfdo.Frame.text_frame("A slide", size=size, position=position))
    return save(path, "presentation", page)


def make_rich_docx(path: Path) -> Path:
    """Write links, fields, tracked changes and content controls."""
    document = docx.Document()
    for inner, _ in find_group("a.docx")["rich"]:
        paragraph = f'<w:p xmlns:w="{W}">{inner}</w:p>'
        document.element.body.insert(0, parse_xml(paragraph))
    document.save(str(path))
    return path


#: The function that writes each document, by file name.
MAKERS = {
    "report.docx": make_docx,
    "draft.docx": make_rich_docx,
    "lecture.pptx": make_pptx,
    "articles.xlsx": make_xlsx,
    "essay.odt": make_odt,
    "list.ods": make_ods,
    "show.odp": make_odp,
}
