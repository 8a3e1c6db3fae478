"""XML in, runs of text and markup out; and what is no XML."""

from __future__ import annotations

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text.document import Segment, scan_tagged
from text.errors import NotWellFormed
from text.options import Splitting, Tags
from text.placeholders import fill
from text.xml_runs import check, escape, parse

PIECES = st.sampled_from(
    [
        *("<a>", "</a>", "<b x='1>2'>", "</b>", "<c/>", "<ig>", "</ig>", "<!-- c -->"),
        *("<?pi x?>", "<![CDATA[ <a> ]]>", "&amp;", "&own;", "&#65;", "&", "<", "é "),
        *("text. ", "More\n", "<_ü>", "</_ü>", "</", "<!DOCTYPE a>"),
    ]
)
TAGS = Tags(is_xml=True, ignored=("ig",), inline=("b",))


def put_together(source: str, tags: Tags) -> str:
    return "".join(
        run.text
        if run.is_markup
        else fill(
            run.text, run.placeholders, [p.shown for p in run.placeholders], escape
        )
        for run in parse(source, tags)
    )


@given(st.lists(PIECES).map("".join))
def test_nothing_is_refused_and_nothing_is_lost(source):
    assert unescape(put_together(source, TAGS)) == unescape(source)


def list_sentences(source: str, how: Splitting = "lines", **tags: object) -> list[str]:
    """List the sentences that a model gets."""
    given = Tags(is_xml=True, **tags)  # type: ignore[arg-type]
    pieces = scan_tagged(parse(source, given), "en", True, tags=given, splitting=how)
    return [piece.prepared for piece in pieces if isinstance(piece, Segment)]


def test_an_element_beside_text_is_part_of_its_sentence():
    source = "<d><t>A title</t><p>One <b>bold</b> word. Two<br/> words.</p></d>"
    assert list_sentences(source) == [
        "A title",
        "One {0}bold{1} word.",
        "Two{0} words.",
    ]


def test_without_an_outline_only_the_named_elements_end_a_sentence():
    source = "<d><t>Title</t><u>and more</u></d>"
    assert list_sentences(source) == ["Title", "and more"]
    assert list_sentences(source, finds_outline=False) == ["Title{0}{1}and more"]
    found = list_sentences(source, finds_outline=False, splitting=("d", "t"))
    assert found == ["Title", "and more"]


def test_an_element_that_splits_does_so_beside_text():
    source = "<p>Good morning <q>my friend</q></p>"
    assert list_sentences(source) == ["Good morning {0}my friend{1}"]
    assert list_sentences(source, splitting=("q",)) == ["Good morning", "my friend"]


def test_an_element_that_does_not_split_joins_its_neighbours():
    source = "<par>The firm said</par><par> it was.</par>"
    assert list_sentences(source) == ["The firm said", "it was."]
    assert list_sentences(source, inline=("par",)) == ["The firm said{0}{1} it was."]


def test_an_ignored_element_is_one_placeholder():
    source = "Open <x>the <x>old</x> page</x> now"
    assert list_sentences(source, ignored=("x",)) == ["Open {0} now"]
    assert list_sentences("<p><x>all</x></p><x/>", ignored=("x",)) == []


def test_names_are_compared_exactly():
    assert list_sentences("Open <X>it</X> now", ignored=("x",)) == ["Open {0}it{1} now"]


def test_scripts_are_no_code_in_xml():
    assert list_sentences("<script>Open it</script>") == ["Open it"]


@pytest.mark.parametrize(
    ("splitting", "sentences"),
    [
        ("lines", ["One", "two.", "Three"]),
        ("sentences", ["One two.", "Three"]),
        ("none", ["One two. Three"]),
    ],
)
def test_lines_end_a_sentence_only_where_they_should(splitting, sentences):
    assert list_sentences("<p>One\ntwo. Three</p>", splitting) == sentences


@pytest.mark.parametrize(
    "source",
    [
        "",
        "text",
        "a &amp; b &#65; &lt;",
        "<a>b</a> c <d/>",
        "<p:a xmlns:p='u'>b</p:a>",
        "<p:a>b</p:a>",
        "<?xml version='1.0'?>\n<a>b</a>",
        "<!DOCTYPE a><a>b</a>",
        "<![CDATA[ <a> ]]>",
        "<!-- a -->",
    ],
)
def test_xml_and_parts_of_it_are_well_formed(source):
    check(source)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("<a>b</c>", "mismatched tag at line 1, column 7"),
        ("a & b", "not well-formed (invalid token) at line 1, column 4"),
        ("a\n<b", "at line 2"),
        ("a < b", "not well-formed"),
        ("a&nbsp;b", "undefined entity at line 1, column 2"),
        ("</x><x>", "mismatched tag"),
        ("\0", "not well-formed"),
        ("<?xml version='1.0'?>a", "line 1"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "it declares the entity 'b'"),
    ],
)
def test_what_is_not_well_formed_is_said_with_its_place(source, says):
    with pytest.raises(NotWellFormed) as refusal:
        check(source)
    assert says in str(refusal.value)
