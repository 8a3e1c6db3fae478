"""Paragraphs of a text document, and the texts that are read from them."""

from __future__ import annotations


def run(text: str, properties: str = "") -> str:
    properties = properties and f"<w:rPr>{properties}</w:rPr>"
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def shape(text: str, properties: str = "") -> str:
    return f"<a:r>{properties}<a:t>{text}</a:t></a:r>"


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
    "a link": (run("See ") + LINK + run("."), ['See <g id="1">the page</g>.']),
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

SHAPE_LINK = '<a:rPr lang="en-US"><a:hlinkClick r:id="r1"/></a:rPr>'
