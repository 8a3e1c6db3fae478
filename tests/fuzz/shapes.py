"""Documents that a careless reader or writer takes far more than their size for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.documents.formats.packing import A, W
from tests.documents.formats.test_epub import CHAPTER, OPF
from tests.fuzz.mutations import pack_parts
from tests.fuzz.seeds import make_seed
from tests.fuzz.trials import find_most_bytes


@dataclass(frozen=True)
class Shape:
    """A document of one format, which is written for a number of bytes, packed or not."""

    name: str
    ending: str
    write: Callable[[int], bytes]

    @property
    def size(self) -> int:
        """Its bytes, for which the limits are."""
        return find_most_bytes(self.ending)


def _repeat(before: str, unit: str, after: str = "") -> Callable[[int], str]:
    return lambda size: before + unit * (size // len(unit.encode())) + after


def _text(name: str, ending: str, before: str, unit: str, after: str = "") -> Shape:
    write = _repeat(before, unit, after)
    return Shape(name, ending, lambda size: write(size).encode())


def _halves(
    name: str, ending: str, before: str, first: str, then: str, *, after: str = ""
) -> Shape:
    """A document of two lengths: what costs their product costs a lot."""

    def write(size: int) -> bytes:
        halves = (part * (size // 2 // len(part.encode())) for part in (first, then))
        return (before + after.join(halves)).encode()

    return Shape(name, ending, write)


def _part(
    name: str, place: tuple[str, str], before: str, unit: str, after: str = ""
) -> Shape:
    """A document whose part at a place, of a format, has a unit again and again."""
    return _pack(name, place, _repeat(before, unit, after))


def _product(
    name: str,
    place: tuple[str, str],
    before: str,
    first: str,
    between: str,
    then: str,
    after: str = "",
) -> Shape:
    """A document whose part has two lengths; `%` is the number of the first unit."""

    def write(size: int) -> str:
        count = size // 2 // (len(first) + 4)
        one = "".join(first.replace("%", str(n)) for n in range(count))
        return before + one + between + then * (size // 2 // len(then)) + after

    return _pack(name, place, write)


def _pack(name: str, place: tuple[str, str], write: Callable[[int], str]) -> Shape:
    ending, part = place

    def pack(size: int) -> bytes:
        return pack_parts({**make_seed(ending), part: write(size).encode()})

    return Shape(name, ending, pack)


_DOCX, _SLIDE = (".docx", "word/document.xml"), (".pptx", "ppt/a.xml")
_ODT, _XLSX, _XHTML = (
    (".odt", "content.xml"),
    (".xlsx", "strings.xml"),
    (".epub", CHAPTER),
)
_WORD, _WORD_END = f'<w:document xmlns:w="{W}"', "</w:body></w:document>"
_PARAGRAPH, _PARAGRAPH_END = f"{_WORD}><w:body><w:p>", f"</w:p>{_WORD_END}"
_OPEN_DOCUMENT = (
    '<d xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0">'
)
_HEAD = 'msgid ""\nmsgstr ""\n'
_XLF = '<xliff version="1.2"><file source-language="en" target-language="'
_BEGIN = '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
_CUE, _WEB_CUE = (
    "1\n00:00:01,000 --> 00:00:02,000\n",
    "WEBVTT\n\n00:01.000 --> 00:02.000\na ",
)
_HTML, _HTML_END = '<html xmlns="http://www.w3.org/1999/xhtml"><body>', "</body></html>"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_CONTAINER = "urn:oasis:names:tc:opendocument:xmlns:container"

SHAPES = (
    _text("header lines", ".po", _HEAD, '"Language:"\n'),
    _text("header joints", ".po", _HEAD, '"Language: a"\n', '"\\n"\n'),
    _halves(
        "header and entries", ".po", _HEAD, '"X: y\\n"\n', '\nmsgid "a b"\nmsgstr "x"\n'
    ),
    _halves(
        "a long language",
        ".po",
        _HEAD + '"Language: ',
        "a",
        '\nmsgid "a b"\nmsgstr "x"\n',
        after='\\n"\n',
    ),
    _halves(
        "a long plural",
        ".po",
        _HEAD + '"Language: de\\n"\n"Plural-Forms: nplurals=2; plural=',
        "n+",
        '\nmsgid "a b"\nmsgid_plural "c d"\nmsgstr[0] ""\n',
        after='n;\\n"\n',
    ),
    _halves(
        "a long first line", ".po", "#", " ", '\nmsgid "a b"\nmsgstr ""\n', after="\n"
    ),
    Shape(
        "plural forms",
        ".po",
        lambda size: (
            'msgid "a b"\nmsgid_plural "c d"\n'
            + "".join(f'msgstr[{n}] ""\n' for n in range(size // 17))
        ).encode(),
    ),
    _text("spaces to break", ".po", 'msgid "a b\\n"\n"', " ", '"\nmsgstr ""\n'),
    _text("a long text", ".po", 'msgid ""\n"a ', "b c ", '\\n"\nmsgstr ""\n'),
    _text("open quotes", ".csv", 'a,b\n"x', '\n",x","'),
    _text("cells", ".csv", "", "a,"),
    _text("short lines in quotes", ".csv", 'a,b\n1,"', "a\n", '"\n'),
    _text("quotes", ".csv", "a,b\n1,", '"'),
    _text("one line", ".txt", "", "word "),
    _text("short lines", ".txt", "", "a\n"),
    _text("dense lines", ".txt", "", "漢字" * 20 + "\n"),
    _text("one cue", ".srt", _CUE, "a b "),
    _text("lines of a cue", ".srt", _CUE, "a\n"),
    _text("tags of a cue", ".vtt", _WEB_CUE, "<i>b</i>"),
    _text("open tags of a cue", ".vtt", _WEB_CUE, "<i"),
    _text("cues", ".srt", "", "1\n00:00:01,000 --> 00:00:02,000\na\n\n"),
    _halves(
        "a language and units",
        ".xliff",
        _XLF,
        "a",
        "<trans-unit><source>a b</source><target>x</target></trans-unit>",
        after='"><body>',
    ),
    _text("an encoding", ".html", "<meta charset=punycode>", "a-b"),
    _text("inline tags", ".html", "a ", "<b>"),
    _text("inline elements", ".html", "a ", "<b>c</b>"),
    _text("attributes", ".html", "<p ", "title='a b' ", ">"),
    _text("open comments", ".html", "a", "<!-- "),
    _text("arrays", ".json", "[", '"a b",', "1]"),
    _text("escapes", ".json", '["a ', "\\u0041", '"]'),
    _text("open comments", ".md", "a ", "<!-- b", " ---->"),
    _text("labels of footnotes", ".md", "[^x]: note\n\na ", "[^a"),
    _text("a title", ".md", '[a]: b "', "\nx"),
    _text("images", ".md", "a ", "![b c](d) "),
    _text("links", ".md", "a ", "[b c](d) "),
    _text("brackets", ".md", "a ", "["),
    _text("open images", ".md", "a ", "!["),
    _text("closed brackets", ".md", "a " + "[" * 1000, "]"),
    _text("stars", ".md", "a ", "*a "),
    _text("more stars", ".md", "a ", "**b"),
    _text("nested emphasis", ".md", "a ", "*_", "b"),
    _text("waves", ".md", "a ", "~~~a"),
    _text("dollars", ".md", "a ", "$a\\$"),
    _text("entities", ".md", "a ", "&amp;"),
    _text("signs", ".md", "a ", "&a"),
    _text("backslashes", ".md", "a ", "\\"),
    _text("breaks", ".md", "a ", "b  \n"),
    _text("lines", ".md", "a ", "b\n"),
    _text("addresses", ".md", "", "[a]: b\n"),
    _text("a name of a tag", ".md", "a <", "b", ' c=">">'),
    _text("open tags", ".md", "a ", "<b c='"),
    _text("short rows", ".md", "|" + "a|" * 250 + "\n|" + "-|" * 250 + "\n", "|b\n"),
    _text(
        "tables",
        ".md",
        "",
        "|" + "a|" * 256 + "\n|" + "-|" * 256 + "\n" + "|b\n" * 256 + "\n",
    ),
    _text("cells", ".md", "|a b|c|\n|-|-|\n", "|d e|f|\n"),
    _text("a cell", ".md", "|a b|c|\n|-|-|\n|", "d ", "|\n"),
    _text("a row", ".md", "", "|a"),
    _text("items", ".md", "", "- a\n"),
    _text("quotations", ".md", "", "> "),
    _text("quoted lines", ".md", "", "> a\n"),
    _product(
        *("namespaces", _DOCX, _WORD, ' xmlns:a%="u"', "><w:body>"),
        *("<w:p><w:r><w:t>Hi</w:t></w:r></w:p>", _WORD_END),
    ),
    _pack(
        "a long namespace",
        _DOCX,
        lambda size: (
            f'{_WORD} xmlns:a="{"u" * (size // 2)}"><w:body>'
            + "<w:p><w:r a:b='c'><w:t>Hi</w:t></w:r></w:p>" * (size // 80)
            + _WORD_END
        ),
    ),
    _product(
        *("namespaces again", _DOCX, _WORD, ' xmlns:a%="u"', "><w:body>"),
        *("<x xmlns:b='u'/>", _WORD_END),
    ),
    _product(
        *("fields", _DOCX, _PARAGRAPH, _BEGIN, ""),
        *("<w:r><w:t>Hi</w:t></w:r>", _PARAGRAPH_END),
    ),
    _product(
        *("instructions", _DOCX, _PARAGRAPH + _BEGIN),
        *("<w:r><w:instrText>a</w:instrText></w:r>", ""),
        *('<w:r><w:fldChar w:fldCharType="separate"/></w:r>', _PARAGRAPH_END),
    ),
    _product(
        *("formatting of many pieces", _DOCX, f"{_PARAGRAPH}<w:r><w:rPr>"),
        *('<w:b w:val="%"/>', "</w:rPr>", "<w:t>a b</w:t><w:tab/>"),
        f"</w:r>{_PARAGRAPH_END}",
    ),
    _part(
        *("pieces of a run", _DOCX, f"{_PARAGRAPH}<w:r>", "<w:t>a b</w:t><w:tab/>"),
        f"</w:r>{_PARAGRAPH_END}",
    ),
    _part(
        *("paragraphs", _DOCX, f"{_WORD}><w:body>"),
        *("<w:p><w:r><w:t>a b</w:t></w:r></w:p>", _WORD_END),
    ),
    _part(
        *("controls in each other", _DOCX, _PARAGRAPH + "<w:ins>" * 150),
        "<w:r><w:t> </w:t><w:tab/></w:r>",
        "<w:r><w:t>a b</w:t></w:r>" + "</w:ins>" * 150 + _PARAGRAPH_END,
    ),
    _pack(
        "attributes",
        _DOCX,
        lambda size: (
            f"{_WORD} " + " ".join(f'a{n}=""' for n in range(size // 10)) + "/>"
        ),
    ),
    _part(
        *("a paragraph of a slide", _SLIDE),
        f'<p:sld xmlns:p="{A}" xmlns:a="{A}"><a:p>',
        *("<a:r><a:t>a b</a:t></a:r><a:br/>", "</a:p></p:sld>"),
    ),
    _part(
        *("texts", _XLSX, f'<sst xmlns="{_SHEET}">'),
        *("<si><t>a b</t></si>", "</sst>"),
    ),
    _product(
        *("attributes of a cell", _ODT, f"{_OPEN_DOCUMENT}<table:table-cell"),
        *(' a%=""', ">", "<text:p>Hi</text:p>", "</table:table-cell></d>"),
    ),
    _part(
        *("spans", _ODT, f"{_OPEN_DOCUMENT}<text:p>"),
        "<text:span text:style-name='a'>a</text:span>"
        "<text:span text:style-name='b'>b</text:span>",
        "</text:p></d>",
    ),
    _product(
        *("books", (".epub", "META-INF/container.xml")),
        f'<container xmlns="{_CONTAINER}"><rootfiles>',
        *('<rootfile full-path="OPS/a.opf"/>', "", " ", "</rootfiles></container>"),
    ),
    _part(
        *("items", (".epub", "OPS/a.opf"), OPF.partition("</manifest>")[0]),
        '<item href="a" media-type="application/xhtml+xml"/>',
        "</manifest>" + OPF.partition("</manifest>")[2],
    ),
    _part(
        *("spans in each other", _XHTML, f"{_HTML}<p>" + "<b>" * 150, "<br/> "),
        "a b" + "</b>" * 150 + f"</p>{_HTML_END}",
    ),
    _part(
        *("blocks in each other", _XHTML, _HTML + "<div>a b" * 150, "<br/>a "),
        "</div>" * 150 + _HTML_END,
    ),
    _part("blocks", _XHTML, _HTML, "<p>a</p>", _HTML_END),
    _part("bold words", _XHTML, f"{_HTML}<p>", "a <b>b</b>", f"</p>{_HTML_END}"),
)
