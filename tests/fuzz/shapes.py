"""A small document of each format with most features, and documents that are costly to read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from documents.formats import SUFFIXES
from tests.documents.formats.packing import (
    pack,
    pack_docx,
    pack_pptx,
    pack_xlsx,
    unpack,
)
from tests.documents.formats.paragraphs import BOLD, CONTROL, LINK, RUBY, TWICE
from tests.documents.formats.paragraphs import field as word_field
from tests.documents.formats.paragraphs import run as word_run
from tests.documents.formats.paragraphs import shape as slide_run
from tests.documents.formats.test_epub import pack_epub
from tests.documents.formats.test_opendocument import NOTE, pack_odf, span

#: The name of the only part of a document that is not a zip file.
WHOLE = ""
#: The documents that are not zip files.
_TEXTS = Path(__file__).with_name("documents")
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


#: The documents of formats that are zip files.
_PACKED = {
    ".docx": pack_docx(_PARAGRAPH),
    ".pptx": pack_pptx(_SHAPE),
    ".xlsx": pack_xlsx(
        "<si><t>Hello you</t></si><si><r><t>Press </t></r><r><t>Go</t></r></si>",
        '<c t="n"><v>1</v></c><c t="inlineStr"><is><t> a b</t></is></c>',
        '<tableColumn name="A head"/>',
    ),
    ".epub": pack_epub(_CHAPTER),
    ".odt": pack_odf(_BODY, "text"),
    ".odp": pack_odf(_BODY, "presentation"),
    ".ods": pack_odf(_BODY, "spreadsheet"),
}


def make_seed(ending: str) -> dict[str, bytes]:
    """Return the parts of a format's document; one that is not a zip file has only WHOLE."""
    text = _TEXTS / f"seed{ending}"
    if text.is_file():
        return {WHOLE: text.read_bytes()}
    return unpack(_PACKED[ending])


def pack_parts(parts: Mapping[str, bytes]) -> bytes:
    """Return the document of these parts: a zip file, unless WHOLE is one of them."""
    return parts[WHOLE] if WHOLE in parts else pack(parts)


#: The suffixes of formats; other suffixes of the same format are left out.
_OTHERS = ".text .markdown .htm .pot .xlf .docm .pptm .xlsm".split()
ENDINGS = [ending for ending in SUFFIXES if ending not in _OTHERS]


@dataclass(frozen=True)
class Shape:
    """A document of one format that repeats one unit, or two: two show a cost that is the
    product of their counts. `%` in the first unit stands for its number."""

    ending: str
    name: str
    unit: str
    before: str = ""
    between: str = ""
    then: str = ""
    after: str = ""
    part: str = WHOLE

    def write(self, size: int) -> bytes:
        """Return the document of a size, packed or not."""
        size //= 2 if self.then else 1
        count = size // len(self.unit.replace("%", "12345").encode())
        first = "".join(self.unit.replace("%", str(n)) for n in range(count))
        then = self.then * (size // len(self.then.encode() or b" "))
        content = self.before + first + self.between + then + self.after
        parts = {} if self.part == WHOLE else make_seed(self.ending)
        return pack_parts({**parts, self.part: content.encode()})


def _read_shapes() -> Iterator[Shape]:
    path = Path(__file__).with_name("shapes.yaml")
    content = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)
    for ending, shapes in content["shapes"].items():
        for name, given in shapes.items():
            texts = {field: _join(value) for field, value in given.items()}
            yield Shape(ending, name, **texts)


def _join(value: Any) -> str:
    """Return a text, or join its pieces: `[3, "a"]` is three times `a`."""
    if isinstance(value, str):
        return value
    pieces = (
        piece if isinstance(piece, str) else piece[1] * piece[0] for piece in value
    )
    return "".join(pieces)


SHAPES = tuple(_read_shapes())
