"""HTML in, runs of text and markup out."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.markup import scan
from text import html_runs
from text.html_runs import escape, parse, show
from text.options import Tags
from text.placeholders import fill

PIECES = st.sampled_from(
    [
        *("<p>", "</p>", "<b>", "</b>", "<br/>", "<i class=notranslate>", "</i>"),
        *("<pre>", "</pre>", "<script>", "if (a<b)", "</script>", "<!-- c -->"),
        *("<!doctype html>", "&amp;", "&nbsp;", "text ", "a < b", "<", "&", "\n"),
        *("<img alt='a>b'>", "<?pi?>", "&#65;", "é", "</x", "<x"),
    ]
)
#: Beginnings and ends of markup, most of which stay alone.
TORN = st.sampled_from(
    [
        *("<![", "<![a]", "<!-", "<!--", "-->", "<!", "<?", "</", "<a b='", "\0"),
        *("<a b=", "'", '"', ">", "=", "]]>", "<![CDATA[", "&#", "&#x"),
        "&#" + "9" * 5000,
    ]
)


def put_together(source: str) -> str:
    return "".join(
        run.text
        if run.is_markup
        else fill(
            run.text, run.placeholders, [m.shown for m in run.placeholders], escape
        )
        for run in parse(source)
    )


@given(st.lists(PIECES).map("".join))
def test_the_runs_of_a_page_are_the_page(source):
    assert html.unescape(put_together(source)) == html.unescape(source)


@given(st.lists(PIECES | TORN | st.text(max_size=3)).map("".join))
def test_the_reader_refuses_nothing_and_loses_nothing(source):
    raw = "".join(token.raw for token in scan(source))
    assert raw == source
    parse(source)


@pytest.mark.parametrize(
    ("source", "markup"),
    [
        ("x <![a] y", ""),
        ("<p>x <![a] y</p>", "<p><![a] y</p>"),
        ("x<![CDATA[a>b]]>y", "<![CDATA[a>b]]>"),
        ("x<![CDATA[a>y", "<![CDATA[a>"),
        ("x<![endif]-->y", "<![endif]-->"),
        ("x<!-- a > b", "<!-- a > b"),
        ("x<!", ""),
        ("x<p a='>y", "<p a='>"),
        ("x<p a='", ""),
        ("<p>x <3", "<p>"),
    ],
)
def test_what_is_no_proper_html_is_read_as_a_browser_reads_it(source, markup):
    assert "".join(run.text for run in parse(source) if run.is_markup) == markup


def test_a_number_that_is_no_characters_is_one_that_shows_it():
    (run,) = parse(f"a &#{'9' * 5000}; b")
    assert run.text == "a \ufffd b"


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<p>One</p><p>Two</p>", ["One", "Two"]),
        ("<p>One <b>big</b> thing</p>", ["One big thing"]),
        ("Line<br>break", ["Line", "break"]),
        ("a &lt; b &amp; c", ["a < b & c"]),
        ("<script>var a</script><style>b{}</style>x", ["x"]),
        ("<pre>keep\n  this</pre>x", ["x"]),
        ('<div translate="no">a<div>b</div>c</div>d', ["d"]),
        ('<div class="x notranslate">a</div>d', ["d"]),
        ("<ul><li>a<li>b</ul>", ["a", "b"]),
        ("<div translate=no>never closed", []),
        ("<!-- comment -->x", ["x"]),
    ],
)
def test_text_is_told_from_markup(source, texts):
    found = [run.text for run in parse(source) if not run.is_markup]
    assert [text for text in found if text.strip()] == texts


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("See <code>f(a)</code> here", ["<code>f(a)</code>"]),
        (
            'Hi <span translate="no">Ann <i>B</i></span>',
            ['<span translate="no">Ann <i>B</i></span>'],
        ),
        ('A <a href="x?a=1&amp;b">link</a>', ['<a href="x?a=1&amp;b">', "</a>"]),
        ("An <img src=x> image<wbr>", ["<img src=x>", "<wbr>"]),
    ],
)
def test_inline_elements_are_placeholders_in_their_sentence(source, shown):
    (run,) = parse(source)
    assert [p.shown for p in run.placeholders] == shown


def test_a_space_that_does_not_break_stays_one():
    assert put_together("5&nbsp;o'clock") == "5&nbsp;o'clock"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a &amp; <b>b</b>", "a & b"),
        ("</p>\n<p>", "\n"),
        ("<br>", "\n"),
        ("<!-- a --><img alt=a>", ""),
        ("<code>f</code>", "f"),
    ],
)
def test_a_reader_sees_the_text_and_line_breaks(source, expected):
    assert show(source) == expected


def list_runs(source: str, **tags: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Each text with the tags in it."""
    return [
        (run.text, [p.shown for p in run.placeholders])
        for run in parse(source, Tags(**tags))  # type: ignore[arg-type]
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
    assert list_runs("One <x/>two", ignored=("x",), inline=("x",)) == [
        ("One two", ["<x/>"])
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Hello", "Hello"),
        ("<p>Hello <b class='x'>you</b></p>", " Hello  you  "),
        ("a < b &amp; c", "a < b & c"),
        ("1 <2 and 3> 2", "1 <2 and 3> 2"),
    ],
)
def test_a_look_at_a_text_is_without_tags(source, text):
    assert html_runs.strip(source) == text
