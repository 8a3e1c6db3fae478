"""Any text is divided into sentences and the parts between them, without loss."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.text.cases import list_rows
from text.segmentation import MAX_CHARACTERS, Part, segment, split

LANGUAGES = "ko en zh es fr ru id ja vi de it hi ar pt th".split()
#: Pieces of texts like documents: sentences, lists, line breaks, unusual spaces.
PIECES = [
    "Hello. ", "M. Dupont", "。", "你好", "\n", "\r\n", "- ", "1. ", "  ",
    "\t", "?!", "…", "नमस्ते।", "e\u0301", "👩\u200d🚀", "\u2028", "\ufeff",
    "a, b; c", "\x00",
]  # fmt: skip
DOCUMENTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=20)).map("".join)


def sentences(text: str, language: str = "en") -> list[str]:
    return [text[p.start : p.end] for p in segment(text, language) if p.is_sentence]


def put_together(text: str, parts: list[Part]) -> str:
    return "".join(text[part.start : part.end] for part in parts)


@given(text=DOCUMENTS, language=st.sampled_from(LANGUAGES), limit=st.integers(1, 30))
def test_the_parts_of_any_text_are_the_text(text, language, limit):
    assert put_together(text, list(segment(text, language))) == text
    assert put_together(text, split(text, limit)) == text


@given(text=DOCUMENTS, ends=st.tuples(st.integers(0, 40), st.integers(1, 40)))
def test_no_cut_falls_inside_a_whole_span(text, ends):
    span = (ends[0], min(len(text), ends[0] + ends[1]))
    assume(text[slice(*span)] == text[slice(*span)].lstrip())
    for parts in (segment(text, "en", [span]), split(text, 5, [span])):
        assert not any(span[0] < part.start < span[1] for part in parts)


def test_a_span_that_begins_like_a_list_is_part_of_its_sentence():
    assert [*segment("1. FC won.", "en", [(0, 5)])] == [Part(0, 10, is_sentence=True)]


@pytest.mark.parametrize(
    ("language", "text", "expected"), list_rows("ends of sentences")
)
def test_sentences_end_where_a_reader_would_end_them(language, text, expected):
    assert sentences(text, language) == expected


@pytest.mark.parametrize(("text", "expected"), list_rows("lines"))
def test_bullets_indentation_and_lines_are_no_part_of_a_sentence(text, expected):
    assert sentences(text) == expected


def test_a_long_sentence_is_cut_at_a_clause():
    text = "word " * 150 + "end, " + "word " * 150
    first, second = [part for part in segment(text, "en") if part.is_sentence]
    assert text[first.start : first.end].endswith("end,")
    assert not first.is_torn
    assert not second.is_torn


@pytest.mark.parametrize(
    ("text", "limit"),
    [("word " * 400, MAX_CHARACTERS), ("a" * 3000, MAX_CHARACTERS), ("가" * 90, 40)],
    ids=["words", "one word", "no spaces"],
)
def test_a_sentence_without_clauses_is_torn_and_says_so(text, limit):
    parts = [part for part in split(text, limit) if part.is_sentence]
    assert len(parts) > 1
    assert all(part.is_torn for part in parts)
    assert all(part.end - part.start <= limit for part in parts)


def test_a_cut_does_not_part_a_letter_from_its_accents():
    text = "e\u0301" * 20
    assert all(part.start % 2 == 0 for part in split(text, 5))
