"""OpenDocument: mixed content, automatic styles, and cells filled by formulas."""

import pytest

from documents.errors import EncryptedDocument
from tests.documents.formats.packing import find_group, pack, unpack
from tests.documents.formats.translating import read, translate

OASIS = "urn:oasis:names:tc:opendocument:xmlns"
MANIFEST = f'<m:manifest xmlns:m="{OASIS}:manifest:1.0">{{}}</m:manifest>'
DECLARED = " ".join(
    f'xmlns:{name}="{OASIS}:{name if name != "draw" else "drawing"}:1.0"'
    for name in ("office", "text", "table", "draw", "style")
)
DECLARED += ' xmlns:officeooo="http://openoffice.org/2009/office"'
LOOK = '<style:style style:name="{}" style:family="text">{}</style:style>'
STYLES = (
    LOOK.format("bold", '<style:text-properties a="b"/>')
    + LOOK.format("bold2", '<style:text-properties a="b" officeooo:rsid="1"/>')
    + LOOK.format("rev", '<style:text-properties officeooo:rsid="2"/>')
    + LOOK.format('child" style:parent-style-name="named', "")
)


def pack_odf(body: str, kind: str = "text", **more: str) -> bytes:
    content = (
        f"<office:document-content {DECLARED}><office:automatic-styles>{STYLES}"
        f"</office:automatic-styles><office:body>{body}</office:body>"
        "</office:document-content>"
    )
    members = {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": content,
        "META-INF/manifest.xml": MANIFEST.format(""),
    }
    return pack(members | more)


def span(style: str, text: str) -> str:
    return f'<text:span text:style-name="{style}">{text}</text:span>'


NOTE = (
    "<text:note><text:note-citation>1</text:note-citation><text:p>A note</text:p>"
    "</text:note>"
)


def test_words_change_places_and_keep_their_formats():
    inner = f"See {span('bold', 'the page')}<text:tab/>or <text:a>it</text:a>."
    source = pack_odf(f"<text:p>{inner}</text:p>")
    new = '<g id="3">Das</g> oder<x id="2"/> <g id="1">die Seite</g>'
    written = unpack(translate("a.odt", source, lambda _: new))["content.xml"].decode()
    bold = span("bold", "die Seite")
    expected = f"<text:p><text:a>Das</text:a> oder<text:tab/> {bold}</text:p>"
    assert expected in written


def test_the_arms_of_a_message_may_repeat_a_link():
    source = pack_odf("<text:p>{n, plural, other {<text:a>it</text:a> #}}</text:p>")
    new = '{few {<g id="1">A</g>} other {<g id="1">B</g>}}'
    written = unpack(translate("a.odt", source, lambda _: new))["content.xml"].decode()
    assert "{few {<text:a>A</text:a>} other {<text:a>B</text:a>}}" in written


BODIES = find_group("bodies")["rows"]


@pytest.mark.parametrize(("name", "kind", "body", "texts"), BODIES.values(), ids=BODIES)
def test_some_texts_of_a_body_stay(name, kind, body, texts):
    assert read(name, pack_odf(body, kind)) == texts


def test_a_document_with_a_password_is_told():
    manifest = MANIFEST.format("<m:file-entry><m:encryption-data/></m:file-entry>")
    with pytest.raises(EncryptedDocument, match="without a password"):
        read("a.odt", pack_odf("", **{"META-INF/manifest.xml": manifest}))
