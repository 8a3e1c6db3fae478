"""The documents in `cases.yaml`: their formats, texts and translations."""

from collections.abc import Callable
from typing import Any

import pytest

from documents.errors import (
    DamagedDocument,
    DocumentTooLarge,
    RefusedContent,
    UnknownFormat,
)
from documents.formats import FORMATS, SUFFIXES, csv, find_format
from documents.formats.format import LOST_READINGS, DocumentContext, is_prose
from documents.formats.subtitles import divide
from tests.documents.formats.packing import (
    GROUPS,
    find_group,
    pack_docx,
    pack_pptx,
    unpack,
)
from tests.documents.formats.test_epub import AROUND, pack_epub
from tests.documents.formats.test_opendocument import pack_odf
from tests.documents.formats.translating import keep, read, shout, translate


def list_cases(kind: str) -> list[Any]:
    """Return names, documents and expected values. A change of None expects no change."""
    cases = []
    for group in GROUPS:
        name, frame = group["name"], group.get("frame", "¦")
        for content, *expected in group.get(kind, ()):
            if kind == "changes":
                (new,) = expected
                expected = [frame.replace("¦", content if new is None else new)]
            document = frame.replace("¦", content).encode()
            case = pytest.param(name, document, *expected, id=f"{name} {content[:30]}")
            cases.append(case)
    return cases


DEEP = [*(f'<g id="{n}">a' for n in range(1, 99)), "</g>" * 98]
#: Functions that put a paragraph into a document.
PACKERS: dict[str, Callable[[str], bytes]] = {
    "a.docx": pack_docx,
    "a.pptx": lambda inner: pack_pptx(f"<a:p>{inner}</a:p>"),
    "a.odt": lambda inner: pack_odf(f"<text:p>{inner}</text:p>"),
    "a.epub": pack_epub,
}
PARAGRAPHS = {
    g["name"]: [*g.get("rich", ()), *g["paragraphs"]]
    for g in GROUPS
    if "paragraphs" in g
}
PARAGRAPHS["a.epub"].append(["<i>a" * 99 + "</i>" * 99, ["a" + "".join(DEEP)]])


@pytest.mark.parametrize(
    ("name", "paragraph", "texts"),
    [
        pytest.param(name, *case, id=f"{name} {case[0][:30]}")
        for name, cases in PARAGRAPHS.items()
        for case in cases
    ],
)
def test_a_paragraph_is_one_text(name, paragraph, texts):
    source = PACKERS[name](paragraph)
    expected = [*(AROUND if name == "a.epub" else ()), *texts]
    assert read(name, source) == expected
    assert read(name, translate(name, source, shout)) == [*map(shout, expected)]
    language = "en" if name == "a.epub" else "ar"
    assert unpack(translate(name, source, keep, language)) == unpack(source)


@pytest.mark.parametrize(("name", "document", "texts"), list_cases("texts"))
def test_texts_are_found_and_stay(name, document, texts):
    assert read(name, document) == texts
    assert translate(name, document, keep) == document


@pytest.mark.parametrize(("name", "document", "new"), list_cases("changes"))
def test_texts_are_translated_and_everything_else_stays(name, document, new):
    assert translate(name, document, shout).decode() == new


@pytest.mark.parametrize(
    ("name", "document", "text", "new"), list_cases("translations")
)
def test_a_translation_brings_no_markup_of_its_own(name, document, text, new):
    assert translate(name, document, lambda _: text).decode() == new


def test_flutter_reads_the_name_of_a_language_with_a_script():
    new = translate("a.arb", b'{"@@locale": "en"}', shout, "zh-Hant")
    assert new == b'{"@@locale": "zh_Hant"}'


@pytest.mark.parametrize(("name", "document", "said"), list_cases("damaged"))
def test_what_is_damaged_is_told(name, document, said):
    with pytest.raises(DamagedDocument) as caught:
        read(name, document)
    assert said in str(caught.value)


@pytest.mark.parametrize(("name", "document", "said"), list_cases("refused"))
def test_what_is_hostile_is_refused(name, document, said):
    with pytest.raises(RefusedContent, match=said):
        read(name, document)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", b"[" * 201 + b"]" * 201, "deeper than 200"),
        ("a.json", b"[" * 10_000, "deeper than 200"),
        ("a.xlf", b"<xliff>" + b"<a>" * 200, "more than 200 deep"),
    ],
)
def test_deep_nesting_is_refused(name, content, said):
    with pytest.raises(RefusedContent, match=said):
        read(name, content)
    assert read("a.json", b"[" * 200 + b'"a b"' + b"]" * 200) == ["a b"]


def test_the_readings_of_words_are_lost_with_a_warning():
    page = "<p>これは<ruby>漢<rp>(</rp><rt>かん<rt>カン<rp>)</rp></ruby>です。<b>本</b></p>"
    context = DocumentContext("de")
    assert read("a.html", page.encode(), context) == ['これは漢です。<g id="1">本</g>']
    assert [*context.warnings] == [LOST_READINGS]
    assert translate("a.html", page.encode(), keep) == page.encode()
    new = translate("a.html", page.encode(), lambda _: 'Das <g id="1">Buch</g>')
    assert new.decode() == "<p>Das <b>Buch</b></p>"


def test_a_longer_translation_keeps_width_and_indentation():
    lines = "  This text was broken by an editor at forty\n  characters, and it ends here.\n"
    new = translate("a.txt", lines.encode(), lambda text: f"{text} {text}").decode()
    assert all(line.startswith("  ") and len(line) <= 44 for line in new.splitlines())
    assert new.split() == lines.split() * 2


@pytest.mark.parametrize(("text", "lengths", "lines"), find_group("a.srt")["divided"])
def test_a_subtitle_is_divided_between_words(text, lengths, lines):
    assert divide(text, lengths) == lines


def test_a_row_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(csv, "MAX_LINE", 100)
    with pytest.raises(DocumentTooLarge, match="Row 2 has more than 100"):
        read("a.csv", b'a,b\n1,"' + b"open\n" * 100)


def test_a_row_of_too_many_cells_is_an_error(monkeypatch):
    monkeypatch.setattr(csv, "_MAX_CELLS", 100)
    assert read("a.csv", b"a1,b1\n" + b"," * 99) == []
    with pytest.raises(DocumentTooLarge, match="Row 2 has more than 100 cells"):
        read("a.csv", b"a1,b1\n" + b"," * 100)


@pytest.mark.parametrize("text", find_group("values")["prose"])
def test_what_people_read_is_prose(text):
    assert is_prose(text)


@pytest.mark.parametrize("text", find_group("values")["codes"])
def test_what_programs_read_is_not(text):
    assert not is_prose(text)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_ending_has_one_format(suffix):
    found = [each for each in FORMATS if suffix in each.suffixes]
    assert found == [find_format(f"My file.{suffix[1:].upper()}")]


@pytest.mark.parametrize(
    ("name", "told"),
    [("a.exe", "in '.exe'"), ("notes", "has no extension"), (".po", "has no")],
)
def test_an_unknown_ending_is_an_error_that_names_the_known_ones(name, told):
    with pytest.raises(UnknownFormat, match=rf"{told}.*\.txt.*\.csv"):
        find_format(name)
