"""Text documents: what is a text of a paragraph, and where its translation is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents.errors import DocumentTooLarge
from documents.formats.format import LanguagePair
from documents.formats.word import FORMAT
from tests.documents.formats.packing import mark, pack_openxml, translate, unpack
from tests.documents.formats.paragraphs import BOLD, CASES, LINK, TWICE, W, run
from tests.documents.formats.work import assert_linear

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


@pytest.mark.parametrize(("paragraph", "texts"), CASES.values(), ids=CASES)
def test_a_paragraph_is_one_text(tmp_path: Path, paragraph: str, texts: list[str]):
    assert list(FORMAT.read(pack_docx(tmp_path, paragraph), "de")) == texts


@pytest.mark.parametrize(("paragraph", "texts"), CASES.values(), ids=CASES)
def test_a_translation_is_where_its_text_was(
    tmp_path: Path, paragraph: str, texts: list[str]
):
    written = translate(FORMAT, pack_docx(tmp_path, paragraph), mark)
    assert list(FORMAT.read(written, "de")) == [mark(text) for text in texts]


@pytest.mark.parametrize("paragraph", [c[0] for c in CASES.values()], ids=CASES)
def test_the_same_texts_give_the_same_bytes(tmp_path: Path, paragraph: str):
    source = pack_docx(tmp_path, paragraph)
    written = translate(FORMAT, source, str, LanguagePair("en", "ar"))
    assert unpack(written) == unpack(source)


def test_a_box_for_old_and_new_programs_has_the_same_translation(tmp_path: Path):
    written = translate(FORMAT, pack_docx(tmp_path, TWICE), mark)
    assert unpack(written)["word/document.xml"].count(b"IN A BOX") == 2


def write_paragraph(folder: Path, paragraph: str, text: str, target: str = "en") -> str:
    """The paragraph after one translation."""
    source = pack_docx(folder, paragraph)
    written = translate(FORMAT, source, lambda _: text, LanguagePair("en", target))
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


FIELDS = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
INSTRUCTION = "<w:r><w:instrText>{}</w:instrText></w:r>"


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(
            lambda n: FIELDS.format("begin") * n + run("Hi") * n, id="open fields"
        ),
        pytest.param(
            lambda n: (
                FIELDS.format("begin")
                + INSTRUCTION.format("abc") * n
                + FIELDS.format("separate") * n
            ),
            id="instructions",
        ),
        pytest.param(
            lambda n: f"<w:r>{'<w:t>a b</w:t><w:tab/>' * n}</w:r>", id="pieces of a run"
        ),
        pytest.param(
            lambda n: (
                "<w:ins>" * min(n, 160)
                + run(" ")
                + run("a b")
                + "</w:ins>" * min(n, 160)
            ),
            id="containers in each other",
        ),
    ],
)
def test_a_paragraph_costs_what_it_is_long(tmp_path: Path, write):
    assert_linear(lambda n: translate(FORMAT, pack_docx(tmp_path, write(n)), mark), 40)


def test_an_instruction_may_be_in_pieces_and_long(tmp_path: Path):
    instruction = "".join(
        map(INSTRUCTION.format, [" ", " HYPER", "LINK ", "u" * 90, " TOC"])
    )
    field = FIELDS.format("begin") + instruction + FIELDS.format("separate")
    source = pack_docx(tmp_path, field + run("the page") + FIELDS.format("end"))
    assert list(FORMAT.read(source, "de")) == ["the page"]


def test_formatting_is_not_repeated_without_end(tmp_path: Path):
    """2 KB become 200 MB where each piece of a run has all of its formatting."""
    looks = "".join(f'<w:b w:val="{n}"/>' for n in range(5_000))
    paragraph = f"<w:r><w:rPr>{looks}</w:rPr>{'<w:t>a b</w:t><w:tab/>' * 2_000}</w:r>"
    with pytest.raises(DocumentTooLarge, match="formatting"):
        translate(FORMAT, pack_docx(tmp_path, paragraph), mark)
