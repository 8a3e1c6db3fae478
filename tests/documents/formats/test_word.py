"""Text documents: what is a text of a paragraph, and where its translation is written."""

from __future__ import annotations

from pathlib import Path

import docx
import pytest
from docx.enum.text import WD_BREAK

from documents.formats.format import Languages
from documents.formats.word import FORMAT
from tests.documents.formats.packing import mark, pack_openxml, translate, unpack

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"
MAIN = "wordprocessingml.document.main+xml"


def pack_docx(folder: Path, paragraph: str, namespace: str = W) -> Path:
    document = (
        f'<?xml version="1.0" standalone="yes"?>\n<w:document xmlns:w="{namespace}" '
        f'xmlns:mc="{MC}"  xmlns:r="urn:r"><w:body><w:p>{paragraph}</w:p></w:body>'
        "</w:document>"
    )
    return pack_openxml(folder / "a.docx", {"word/document.xml": (MAIN, document)})


def run(text: str, properties: str = "") -> str:
    properties = properties and f"<w:rPr>{properties}</w:rPr>"
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def field(instruction: str, result: str) -> str:
    kinds = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in FIELD]
    code = f"<w:r><w:instrText> {instruction} </w:instrText></w:r>"
    return kinds[0] + code + kinds[1] + result + kinds[2]


FIELD = ("begin", "separate", "end")
BOLD = "<w:b/>"
BOX = f"<w:txbxContent><w:p>{run('In a box')}</w:p></w:txbxContent>"
TWICE = (
    f"<w:r><mc:AlternateContent><mc:Choice>{BOX}</mc:Choice><mc:Fallback>"
    f"<w:pict>{BOX}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
)
LINK = f'<w:hyperlink r:id="r1">{run("the page", "<w:u/>")}</w:hyperlink>'
CONTROL = f"<w:sdt><w:sdtPr/><w:sdtContent>{run('a choice')}</w:sdtContent></w:sdt>"
RUBY = (
    f"<w:r><w:ruby><w:rt>{run('kan')}</w:rt><w:rubyBase>{run('漢')}</w:rubyBase>"
    "</w:ruby></w:r>"
)

CASES = {
    "one run": (run("Hello"), ["Hello"]),
    "bold inside a sentence": (
        run("Press ") + run("Start", BOLD) + run(" now."),
        ['Press <g id="1">Start</g> now.'],
    ),
    "mostly bold": (
        run("Note: ") + run("never do this", BOLD),
        ['<g id="1">Note: </g>never do this'],
    ),
    "all bold": (run("Hello", BOLD), ["Hello"]),
    "runs that look the same": (run("Hel") + "<w:proofErr/>" + run("lo"), ["Hello"]),
    "a language is no look": (
        run("Hel", '<w:lang w:val="en-US"/>') + run("lo", "<w:noProof/>"),
        ["Hello"],
    ),
    "a space in bold": (run("one") + run(" ", BOLD) + run("two"), ["one two"]),
    "signs": (run("a &lt;b&gt; &amp; c"), ["a &lt;b&gt; &amp; c"]),
    "a break in one run": (
        "<w:r><w:t>one</w:t><w:br/><w:t>two</w:t></w:r>",
        ['one<x id="1"/>two'],
    ),
    "neighbouring atoms are one": (
        run("one") + "<w:r><w:tab/><w:drawing/></w:r><w:bookmarkStart/>" + run("two"),
        ['one<x id="1"/>two'],
    ),
    "atoms at both ends": (
        "<w:bookmarkStart/>" + run("Hello") + "<w:r><w:footnoteReference/></w:r>",
        ["Hello"],
    ),
    "a link": (
        run("See ") + LINK + run("."),
        ['See <g id="1">the page</g>.'],
    ),
    "a link alone": (LINK, ["the page"]),
    "a link with bold": (
        f"{run('See ')}<w:hyperlink>{run('the whole ')}{run('page', BOLD)}</w:hyperlink>",
        ['See <g id="1">the whole <g id="2">page</g></g>'],
    ),
    "a content control": (run("Make ") + CONTROL, ['Make <g id="1">a choice</g>']),
    "a page number": (
        run("Page ") + field("PAGE", run("one")) + run(" of all"),
        ['Page <x id="1"/> of all'],
    ),
    "a link that is a field": (
        run("See ") + field('HYPERLINK "u"', run("the page")) + run("."),
        ['See <x id="1"/>the page<x id="2"/>.'],
    ),
    "a field in a field": (
        run("See ") + field("TOC", run("Chapter ") + field("PAGE", run("one"))),
        ['See <x id="1"/>Chapter '],
    ),
    "a link in a field that is worked out": (
        run("See ") + field("REF", LINK) + run(" now"),
        ['See <x id="1"/> now'],
    ),
    "a simple field": (
        f'<w:fldSimple w:instr="DATE">{run("May")}</w:fldSimple>{run("is it")}',
        ["is it"],
    ),
    "a simple field with a link": (
        f'{run("to ")}<w:fldSimple w:instr="HYPERLINK">{run("it")}</w:fldSimple>',
        ['to <g id="1">it</g>'],
    ),
    "what is deleted and inserted": (
        f"{run('It was ')}<w:del><w:r><w:delText>bad</w:delText></w:r></w:del>"
        f"<w:ins>{run('good')}</w:ins>",
        ['It was <x id="1"/><g id="2">good</g>'],
    ),
    "a text box": (run("Outside") + TWICE, ["Outside", "In a box"]),
    "a hard hyphen": (
        "<w:r><w:t>one</w:t><w:noBreakHyphen/><w:t>two</w:t></w:r>",
        ["one\u2011two"],
    ),
    "ruby": (run("see ") + RUBY, ["see 漢"]),
    "numbers": (run("12.5"), []),
    "an address": (run("https://example.com/a"), []),
    "a mailbox": (run("a@example.com"), []),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("paragraph", "texts"), CASES.values(), ids=CASES)
def test_a_paragraph_is_one_text(tmp_path: Path, paragraph: str, texts: list[str]):
    assert list(FORMAT.read(pack_docx(tmp_path, paragraph))) == texts


@pytest.mark.parametrize(("paragraph", "texts"), CASES.values(), ids=CASES)
def test_a_translation_is_where_its_text_was(
    tmp_path: Path, paragraph: str, texts: list[str]
):
    written = translate(FORMAT, pack_docx(tmp_path, paragraph), mark)
    assert list(FORMAT.read(written)) == [mark(text) for text in texts]


@pytest.mark.parametrize("paragraph", [c[0] for c in CASES.values()], ids=CASES)
def test_the_same_texts_give_the_same_bytes(tmp_path: Path, paragraph: str):
    source = pack_docx(tmp_path, paragraph)
    written = translate(FORMAT, source, str, Languages("en", "ar"))
    assert unpack(written) == unpack(source)


def test_a_box_for_old_and_new_programs_has_the_same_translation(tmp_path: Path):
    written = translate(FORMAT, pack_docx(tmp_path, TWICE), mark)
    assert unpack(written)["word/document.xml"].count(b"IN A BOX") == 2


def write_paragraph(folder: Path, paragraph: str, text: str, target: str = "en") -> str:
    """The paragraph after one translation."""
    source = pack_docx(folder, paragraph)
    written = translate(FORMAT, source, lambda _: text, Languages("en", target))
    document = unpack(written)["word/document.xml"].decode()
    return document.split("<w:body>")[1].split("</w:body>")[0].replace(PRESERVE, "")


PRESERVE = ' xml:space="preserve"'


def test_words_change_places_and_keep_their_formats(tmp_path: Path):
    paragraph = run("Press ", "<w:i/>") + run("Go", BOLD) + LINK
    written = write_paragraph(
        tmp_path, paragraph, '<g id="2">La page</g> : <g id="1">Va</g> !', "fr"
    )
    lang = '<w:lang w:val="fr"/>'
    assert written == (
        '<w:p><w:hyperlink r:id="r1">'
        f"<w:r><w:rPr><w:u/>{lang}</w:rPr><w:t>La page</w:t></w:r></w:hyperlink>"
        f"<w:r><w:rPr><w:i/>{lang}</w:rPr><w:t> : </w:t></w:r>"
        f"<w:r><w:rPr><w:b/>{lang}</w:rPr><w:t>Va</w:t></w:r>"
        f"<w:r><w:rPr><w:i/>{lang}</w:rPr><w:t> !</w:t></w:r></w:p>"
    )


@pytest.mark.parametrize(
    ("target", "properties"),
    [
        ("de", '<w:lang w:val="de" w:bidi="x"/>'),
        ("ja", '<w:lang w:val="en-US" w:bidi="x" w:eastAsia="ja"/>'),
        ("he", '<w:rtl/><w:lang w:val="en-US" w:bidi="he"/>'),
    ],
)
def test_a_run_says_its_language_and_its_direction(
    tmp_path: Path, target: str, properties: str
):
    paragraph = run("Hello", '<w:lang w:val="en-US" w:bidi="x"/>')
    written = write_paragraph(tmp_path, paragraph, "T", target)
    direction = "<w:pPr><w:bidi/></w:pPr>" if target == "he" else ""
    expected = f"{direction}<w:r><w:rPr>{properties}</w:rPr><w:t>T</w:t></w:r>"
    assert written == f"<w:p>{expected}</w:p>"


def test_a_paragraph_loses_the_direction_of_its_old_language(tmp_path: Path):
    paragraph = f"<w:pPr><w:bidi/><w:jc/></w:pPr>{run('Hello', '<w:rtl/>')}"
    written = write_paragraph(tmp_path, paragraph, "T", "en")
    assert "w:bidi" not in written
    assert "w:rtl" not in written


def test_the_direction_has_the_place_that_the_schema_gives_it(tmp_path: Path):
    paragraph = f"<w:pPr><w:keepNext/><w:jc/></w:pPr>{run('Hello')}"
    written = write_paragraph(tmp_path, paragraph, "T", "ar")
    assert "<w:pPr><w:keepNext/><w:bidi/><w:jc/></w:pPr>" in written


def test_a_strict_document_is_read_and_stays_strict(tmp_path: Path):
    source = pack_docx(tmp_path, run("Hello"), STRICT)
    written = unpack(translate(FORMAT, source, mark))["word/document.xml"].decode()
    assert "HELLO" in written
    assert W not in written


def make_docx(path: Path) -> Path:
    document = docx.Document()
    document.core_properties.title = "The title"
    document.add_heading("A heading", 1)
    paragraph = document.add_paragraph("Press ", "List Bullet")
    paragraph.add_run("Start").bold = True
    paragraph.add_run().add_break(WD_BREAK.PAGE)
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "A cell", "42"
    document.sections[0].header.paragraphs[0].text = "The header"
    document.sections[0].footer.paragraphs[0].text = "The footer"
    document.add_comment(paragraph.runs, "A remark", "Ann")
    document.save(str(path))
    return path


def test_all_parts_of_a_document_are_read(tmp_path: Path):
    assert sorted(FORMAT.read(make_docx(tmp_path / "a.docx"))) == [
        "A cell",
        "A heading",
        "A remark",
        'Press <g id="1">Start</g>',
        "The footer",
        "The header",
        "The title",
    ]


def test_styles_stay_and_the_library_reads_what_is_written(tmp_path: Path):
    written = translate(FORMAT, make_docx(tmp_path / "a.docx"), mark)
    document = docx.Document(str(written))
    bullet = document.paragraphs[1]
    assert (bullet.text.strip(), bullet.style and bullet.style.name) == (
        "PRESS START",
        "List Bullet",
    )
    assert [r.text for r in bullet.runs if r.bold] == ["START"]
    assert document.core_properties.title == "THE TITLE"
