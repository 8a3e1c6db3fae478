"""Web pages: what is translated, and what stays."""

from __future__ import annotations

import pytest

from tests.documents.formats.translating import keep, read, shout, translate


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<p>One <b>two</b> three</p>", ['One <g id="1">two</g> three']),
        ("<p>One<p>Two<br>Three", ["One", "Two", "Three"]),
        ("<p>\n  One\n  two </p>", ["One two"]),
        ("<td>1 &lt; 2 &amp; so&nbsp;on", ["1 &lt; 2 &amp; so\u00a0on"]),
        ("<title>A page</title>", ["A page"]),
        ("<p>Run <code>ls</code> now", ['Run <x id="1"/> now']),
        ("<p>See <img src=a alt='A cat'>", ['See <x id="1"/>', "A cat"]),
        ("<img alt='A cat' src=a>", ["A cat"]),
        ("<p>Go <a title='To me' href=a>here</a>", ['Go <g id="1">here</g>', "To me"]),
        ("<div title='A tip'>Text</div>", ["A tip", "Text"]),
        ("<input placeholder=Name type=text value=stays>", ["Name"]),
        ("<input type=submit value='Send it'>", ["Send it"]),
        ("<textarea placeholder='A note'>stays</textarea>", ["A note"]),
        ("<meta name=description content='A page'>", ["A page"]),
        ("<meta property='og:title' content='A page'>", ["A page"]),
        ("<meta name=viewport content='width'>", []),
        ("<p>One <i>two</p>", ['One <x id="1"/>two']),
        ("<script>a = 'text'</script><style>p {}</style><!-- note -->", []),
        ("<pre>text</pre><svg><text>a</text></svg><p>42</p>", []),
        ("<p translate=no title='A tip'>text</p>", []),
        ("<p>Buy <b class='notranslate'>Foo</b> now", ['Buy <x id="1"/> now']),
        ("a < b", ["a &lt; b"]),
        ("<img alt='a > b'>", ["a > b"]),
        ("<p>torn <b", ["torn &lt;b"]),
    ],
)
def test_texts_of_a_page(page, texts):
    assert read("a.html", page.encode()) == texts
    assert translate("a.html", page.encode(), keep) == page.encode()


@pytest.mark.parametrize(
    ("page", "new"),
    [
        (
            "<p  class=a >\n one <B>two</B>\n</P>",
            "<p  class=a >\n ONE <B>TWO</B>\n</P>",
        ),
        ("<p>a &lt; b &amp; c&nbsp;d", "<p>A &lt; B &amp; C&#160;D"),
        ("<img alt='a &#39;cat&#39;' src=x>", "<img alt='A &#39;CAT&#39;' src=x>"),
        ("<img alt=cat src=x>", '<img alt="CAT" src=x>'),
        (
            "<p>a <img alt='b' title=c> <i title=' d '>e</i>",
            "<p>A <img alt='B' title=\"C\"> <i title=' D '>E</i>",
        ),
        ("<html lang='en' xml:lang=en-GB>", "<html lang='de' xml:lang=de>"),
        ("<html lang=de-AT>", "<html lang=de-AT>"),
        ("<p lang=en>", "<p lang=en>"),
    ],
)
def test_everything_else_stays(page, new):
    assert translate("a.htm", page.encode(), shout) == new.encode()


def test_elements_may_move_with_their_attributes():
    page = b"<p><b>one</b> <img alt='two'></p>"
    new = {
        '<g id="1">one</g> <x id="2"/>': '<x id="2"/> <g id="1">ein</g>',
        "two": "zwei",
    }
    written = translate("a.html", page, new.__getitem__)
    assert written == b"<p><img alt='zwei'> <b>ein</b></p>"
