"""One small document of each format, with most of what the format can hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from documents.formats import SUFFIXES
from tests.documents.formats.packing import pack_docx, pack_pptx, pack_xlsx, unpack
from tests.documents.formats.paragraphs import BOLD, CONTROL, LINK, RUBY, TWICE
from tests.documents.formats.paragraphs import field as word_field
from tests.documents.formats.paragraphs import run as word_run
from tests.documents.formats.paragraphs import shape as slide_run
from tests.documents.formats.test_epub import pack_epub
from tests.documents.formats.test_opendocument import NOTE, pack_odf, span

#: The name of the only part of a document that is no zip file.
WHOLE = ""
_TEXT = """The first line of a paragraph that was broken because the window
was narrow. 12.5

- an item, 漢字と仮名
    indented\t$x$ {name}
"""
_MARKDOWN = """---
title: a b
---
# A heading with `code`

A **bold *word* here** and [a link](http://a.b "t") and ![an image](c.png)<br/>.
Second line\\
third &amp; ~~gone~~ <b>tag</b> <!-- note --> [^1] [name] <http://a.b> $a$

[name]: http://a.b "a title"
[^1]: A footnote.

| A head | B |
|--------|---|
| a \\| b | c |

1. one thing
   > quoted text

```
code
```
"""
_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="description" content="What it is"><script>a < b</script></head><body>
<p title='a tip'>Press <b>Go</b> <img alt="a cat" src=c> now &amp; then&nbsp;<br>or not</p>
<ul><li>one <a href="b">link</a></ul><pre>code</pre><!-- note --><p translate=no>x y</p>
<input type=submit value="Send it"></body></html>
"""
_SUBRIP = """1
00:00:01,000 --> 00:00:02,000
<i>Where is it?</i> {\\an8}
- No, over there, and so

2
00:00:02,500 --> 00:00:03,000
it goes on here.
"""
_WEBVTT = """WEBVTT

NOTE a note

00:01.000 --> 00:02.000 align:left
<v Bob>Where is &lt;it&gt;?</v>
<c.loud>Over <00:01.500>there</c>
"""
_CATALOG = r"""# A title
msgid ""
msgstr ""
"Project-Id-Version: a\n"
"Language: fr\n"
"Plural-Forms: nplurals=2; "
"plural=(n > 1);\n"

#, fuzzy, c-format
msgctxt "menu"
msgid "a \"file\"\n"
"and more"
msgstr "x"

msgid "%d file left"
msgid_plural "%d files left"
msgstr[0] ""
msgstr[1] ""
"""
_XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a" source-language="en" target-language="fr"><body>
  <group translate="yes"><trans-unit id="1">
   <source>Press <g id="1">Go</g><x id="2"/> <ph id="3">c</ph> &lt; <![CDATA[a b]]></source>
   <target state="new">x</target><!-- note --><note>n</note></trans-unit></group>
 </body></file></xliff>
"""
_JSON = r"""{"title": "A b \u00e9 c", "list": [1, -2.5e3, true, null, "two words\n"],
 "deep": {"a": [{"b": "see http:\/\/a.b now"}]}, "": ""}
"""
_COMMAS = 'id,A name,Note\n1,"a, ""quoted"" text",=A1\n2,"two\nlines",-x y\n3,,ab cd\n'
_TEXTS = {
    ".txt": _TEXT,
    ".md": _MARKDOWN,
    ".html": _PAGE,
    ".srt": _SUBRIP,
    ".vtt": _WEBVTT,
    ".po": _CATALOG,
    ".xliff": _XLIFF,
    ".json": _JSON,
    ".csv": _COMMAS,
    ".tsv": _COMMAS.replace(",", "\t"),
}

_PARAGRAPH = (
    word_run("See ")
    + word_run("bold", BOLD)
    + f"<w:r><w:t>one</w:t><w:br/><w:tab/></w:r>{LINK}{CONTROL}{RUBY}{TWICE}"
    + word_field('HYPERLINK "u"', word_run("the page"))
    + word_field("PAGE", word_run("one"))
)
_SHAPE = (
    "<p:sp><p:txBody><a:p><a:pPr/>"
    + slide_run("Press ")
    + slide_run("Go", '<a:rPr b="1"/>')
    + "<a:br/><a:endParaRPr/></a:p></p:txBody></p:sp>"
)
_CHAPTER = (
    '<h1>One</h1>text<div>a <b class="k">bold</b> <i>word</i><br/><ruby>k<rt>r</rt></ruby>'
    '<p translate="no">x y</p><a href="#b">See it</a></div>&nbsp;<img alt="c"/>'
)
_BODY = (
    f"<text:h>A {span('a', 'b')} c<text:line-break/></text:h><table:table-cell "
    f'office:value-type="string" office:string-value="x y"><text:p>x y{NOTE}</text:p>'
    "</table:table-cell><text:p><text:a>see it</text:a></text:p>"
)


def _pack(ending: str) -> Callable[[Path], Path]:
    """Pack the document of a format that is a zip file."""
    kinds = {".odt": "text", ".odp": "presentation", ".ods": "spreadsheet"}
    packers: dict[str, Callable[[Path], Path]] = {
        ".docx": lambda folder: pack_docx(folder, _PARAGRAPH),
        ".pptx": lambda folder: pack_pptx(folder, _SHAPE),
        ".xlsx": lambda folder: pack_xlsx(
            folder,
            "<si><t>Hello you</t></si><si><r><t>Press </t></r><r><t>Go</t></r></si>",
            '<c t="n"><v>1</v></c><c t="inlineStr"><is><t> a b</t></is></c>',
            '<tableColumn name="A head"/>',
        ),
        ".epub": lambda folder: pack_epub(folder, _CHAPTER),
    }
    return packers.get(ending) or (
        lambda folder: pack_odf(folder, _BODY, kinds[ending])
    )


def make_seed(ending: str) -> dict[str, bytes]:
    """The parts of a format's document; the content of other formats is their only part."""
    if ending in _TEXTS:
        return {WHOLE: _TEXTS[ending].encode()}
    with TemporaryDirectory() as folder:
        return unpack(_pack(ending)(Path(folder)))


#: Endings of formats; others of the same format are left out.
ENDINGS = tuple(
    e for e in SUFFIXES if e not in (".text", ".markdown", ".htm", ".pot", ".xlf")
)
