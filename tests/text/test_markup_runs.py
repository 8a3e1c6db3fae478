"""HTML and XML become runs of text and markup; malformed XML is refused."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.markup import scan
from tests.text.cases import list_rows
from tests.text.test_document import copy, prepared, read
from text import markup_runs
from text.errors import NotWellFormed
from text.markup_runs import check_xml, escape_html, escape_xml, parse_markup
from text.options import HTML_TAGS, Tags

HTML_PIECES = st.sampled_from(
    [
        "<p>", "</p>", "<b>", "</b>", "<br/>", "<i class=notranslate>", "</i>",
        "<pre>", "</pre>", "<script>", "if (a<b)", "</script>", "<!-- c -->",
        "<!doctype html>", "&amp;", "&nbsp;", "text ", "a < b", "<", "&", "\n",
        "<img alt='a>b'>", "<?pi?>", "&#65;", "é", "</x", "<x",
    ]
)  # fmt: skip
#: Beginnings and ends of markup, mostly without their counterparts.
TORN = st.sampled_from(
    [
        "<![", "<![a]", "<!-", "<!--", "-->", "<!", "<?", "</", "<a b='", "\0",
        "<a b=", "'", '"', ">", "=", "]]>", "<![CDATA[", "&#", "&#x",
        "&#" + "9" * 5000,
    ]
)  # fmt: skip
XML_PIECES = st.sampled_from(
    [
        "<a>", "</a>", "<b x='1>2'>", "</b>", "<c/>", "<ig>", "</ig>", "<!-- c -->",
        "<?pi x?>", "<![CDATA[ <a> ]]>", "&amp;", "&own;", "&#65;", "&", "<", "é ",
        "text. ", "More\n", "<_ü>", "</_ü>", "</", "<!DOCTYPE a>",
    ]
)  # fmt: skip
XML_TAGS = Tags(is_xml=True, ignored=("ig",), inline=("b",))


def put_together(source: str, tags: Tags = HTML_TAGS) -> str:
    escape = escape_xml if tags.is_xml else escape_html
    return "".join(
        run.text if run.is_markup else copy(run, escape)
        for run in parse_markup(source, tags)
    )


@given(st.lists(HTML_PIECES).map("".join), st.lists(XML_PIECES).map("".join))
def test_the_runs_of_a_page_are_the_page(page, document):
    assert html.unescape(put_together(page)) == html.unescape(page)
    found = put_together(document, XML_TAGS)
    assert html.unescape(found) == html.unescape(document)


@given(st.lists(HTML_PIECES | TORN | st.text(max_size=3)).map("".join))
def test_the_reader_refuses_nothing_and_loses_nothing(source):
    assert "".join(token.raw for token in scan(source)) == source
    parse_markup(source, HTML_TAGS)


@pytest.mark.parametrize(("source", "markup"), list_rows("markup of broken HTML"))
def test_what_is_no_proper_html_is_read_as_a_browser_reads_it(source, markup):
    runs = parse_markup(source, HTML_TAGS)
    assert "".join(run.text for run in runs if run.is_markup) == markup


def test_characters_are_unescaped():
    (run,) = parse_markup(f"a &#{'9' * 5000}; b", HTML_TAGS)
    assert run.text == "a \ufffd b"
    assert put_together("5&nbsp;o'clock") == "5&nbsp;o'clock"


@pytest.mark.parametrize(("source", "texts"), list_rows("texts of HTML"))
def test_text_is_told_from_markup(source, texts):
    found = [run.text for run in parse_markup(source, HTML_TAGS) if not run.is_markup]
    assert [text for text in found if text.strip()] == texts


@pytest.mark.parametrize(("source", "shown", "stripped"), list_rows("visible HTML"))
def test_a_reader_sees_the_text_and_line_breaks(source, shown, stripped):
    assert markup_runs.show(source) == shown
    assert markup_runs.strip(source, HTML_TAGS) == stripped


def list_runs(source: str, **tags: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Return each text with the tags inside it."""
    return [
        (run.text, [p.shown for p in run.placeholders])
        for run in parse_markup(source, Tags(**tags))  # type: ignore[arg-type]
        if not run.is_markup
    ]


def test_elements_are_read_as_the_client_says():
    source = "<p>One <b>two</b> <x>three</x> <q>four</q></p>"
    assert list_runs(source) == [
        ("One two ", ["<b>", "</b>"]),
        ("three", []),
        (" four", ["<q>", "</q>"]),
    ]
    assert list_runs(source, inline=("x",), splitting=("q",), ignored=("b",)) == [
        ("One  three ", ["<b>two</b>", "<x>", "</x>"]),
        ("four", []),
    ]
    ruby = "One <x/><ruby>a<rt>b</ruby>two"
    ((_, kept),) = list_runs(ruby, ignored=("x", "ruby"), inline=("x",))
    assert kept == ["<x/>", "<ruby>a<rt>b</ruby>"]


PAR = "<par>The firm said</par><par> it was.</par>"
OUTLINE = "<d><t>Title</t><u>and more</u></d>"
WHOLE = {"finds_outline": False}
BESIDE = "<p>One <b>bold</b> word. Two<br/> <q>words.</q></p>"


@pytest.mark.parametrize(
    ("source", "tags", "sentences"),
    [
        (BESIDE, {}, ["One {0}bold{1} word.", "Two{0} {1}words.{2}"]),
        (BESIDE, {"splitting": ("q",)}, ["One {0}bold{1} word.", "Two", "words."]),
        (OUTLINE, {}, ["Title", "and more"]),
        (OUTLINE, WHOLE, ["Title{0}{1}and more"]),
        (OUTLINE, {**WHOLE, "splitting": ("d", "t")}, ["Title", "and more"]),
        (PAR, {}, ["The firm said", "it was."]),
        (PAR, {"inline": ("par",)}, ["The firm said{0}{1} it was."]),
        ("Open <x>a <x>b</x></x> now", {"ignored": ("x",)}, ["Open {0} now"]),
        ("<p><x>all</x></p><x/>", {"ignored": ("x",)}, []),
        ("Open <X>it</X> now", {"ignored": ("x",)}, ["Open {0}it{1} now"]),
        ("<script>Open it</script>", {}, ["Open it"]),
        ("<!DOCTYPE a [<!ENTITY b ']> c'><!-- It's ]> -->]><a>d</a>", {}, ["d"]),
    ],
)
def test_xml_is_divided_by_its_outline_and_as_the_client_says(source, tags, sentences):
    document = read(source, tags=Tags(is_xml=True, **tags))
    assert prepared(document) == sentences


@pytest.mark.parametrize(
    "source",
    [
        "", "text", "a &amp; b &#65; &lt;", "<a>b</a> c <d/>", "<p:a>b</p:a>",
        "<?xml version='1.0'?>\n<a>b</a>", "<!DOCTYPE a><a>b</a>", "<!-- a -->",
    ],
)  # fmt: skip
def test_xml_and_parts_of_it_are_well_formed(source):
    check_xml(source)


@pytest.mark.parametrize(("source", "says"), list_rows("faults of XML"))
def test_what_is_not_well_formed_is_said_with_its_place(source, says):
    with pytest.raises(NotWellFormed) as refusal:
        check_xml(source)
    assert says in str(refusal.value)
