"""Glossary terms in texts of all scripts, and the capitals of their translations."""

import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.cases import list_rows
from text import terms
from text.document import ReadingJob, collect, find_kept, scan
from text.placeholders import find_protected
from text.terms import Choice, TermCache, Terms, combine, find_terms, settle


def find(
    entries: dict[str, str], text: str, source: str = "en", target: str = "de"
) -> list[tuple[str, str]]:
    """Return each term found, and the text shown in its place."""
    found = find_terms(text, [Terms(entries.items(), source, target)])
    return [(text[p.start : p.end], p.shown) for p in found]


@pytest.mark.parametrize(
    ("source", "term", "text", "count"), list_rows("words of terms")
)
def test_a_term_is_found_at_word_borders(source, term, text, count):
    for written in (text, unicodedata.normalize("NFD", text)):
        assert len(find({term: "x"}, written, source, "zh")) == count


def test_the_longest_term_wins():
    entries = {"New York": "a", "New York Times": "b", "York": "c", "Times": "d"}
    text = "New York Times, New York, York Times"
    assert [shown for _, shown in find(entries, text)] == ["b", "a", "c", "d"]
    entries = {"云服务器": "a", "服务器": "b", "云": "c"}
    found = find(entries, "云服务器服务器云", "zh", "en")
    assert [shown for _, shown in found] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("term", "translation", "text", "shown"), list_rows("capitals of terms")
)
def test_the_capitals_are_those_of_the_text(term, translation, text, shown):
    assert find({term: translation}, text, "en", "fr") == [(text, shown)]


@pytest.mark.parametrize(
    ("text", "translated", "languages", "shown"), list_rows("first letters of terms")
)
def test_the_first_letter_is_that_of_a_sentence(text, translated, languages, shown):
    source, target = languages.split()
    entries = {"car": "coche", "DNT": "DNT", "app": "eApp"}
    found = find_kept(text, True, [Terms(entries.items(), source, target)])
    settled = settle(text, found, translated, (source, target))
    assert [p.shown for p in settled if p.shown[0] != "<"] == [shown]


def test_capitals_are_those_of_the_language():
    assert find({"light": "ışık"}, "LIGHT", "en", "tr") == [("LIGHT", "IŞIK")]
    assert find({"light": "iyi"}, "Light", "en", "tr") == [("Light", "İyi")]
    assert find({"invoice": "abc"}, "INVOICE", "en", "zh") == [("INVOICE", "abc")]


def test_an_entry_with_the_same_capitals_wins():
    entries = {"apple": "pomme", "Apple": "Apple Inc."}
    found = find(entries, "Apple, apple, APPLE", "en", "fr")
    assert [shown for _, shown in found] == ["Apple Inc.", "pomme", "POMME"]
    abbreviations = {"US": "États-Unis", "IT": "informatique"}
    found = find(abbreviations, "It told us: US and IT", "en", "fr")
    assert found == [("US", "États-Unis"), ("IT", "informatique")]


@pytest.mark.parametrize("order", [("US", "Us", "us"), ("us", "US", "Us")])
def test_entries_that_differ_in_capitals_are_told_apart(order):
    entries = {source: f"={source}" for source in order}
    found = find(entries, "US us Us uS", "en", "zh")
    rest = next(source for source in order if source != "US")
    assert [shown for _, shown in found] == ["=US", "=us", "=Us", f"={rest}"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("See https://server.com, server", ["https://server.com", "X"]),
        ("`server` {server} server", ["`server`", "{server}", "X"]),
        pytest.param("pump A-100 and A-100", ["Y", "A-100"], id="term with a code"),
        pytest.param("pump and A-100", ["A-100"], id="no term"),
    ],
)
def test_a_term_in_what_is_protected_is_none(text, kept):
    terms = Terms({"server": "X", "pump A-100": "Y"}.items(), "en", "de")
    assert [p.shown for p in find_kept(text, True, [terms])] == kept


def test_what_overlaps_only_in_part_is_left_out():
    text = "server `a b`"
    terms = find_terms(text, [Terms([("server `a", "X")], "en", "de")])
    assert combine(find_protected(text), terms) == find_protected(text)
    text = "pump A-100 {a} b}"
    terms = find_terms(text, [Terms([("A-100 {a", "X")], "en", "de")])
    assert [p.shown for p in combine(find_protected(text), terms)] == ["A-100", "{a}"]


def test_a_term_in_capitals_is_a_word_in_capitals():
    choice = Choice("", {"en": ("invoice\tfacture",)})
    job = ReadingJob((("PRINT INVOICE", "en"),), None, True, 1, "lines", "fr", choice)
    kept = TermCache(lambda _, entries: entries.encode())
    (document,) = collect(job, scan(job, kept))
    assert [segment.is_in_capitals for segment in document.segments] == [True]


def test_making_terms_lets_others_run():
    pauses: list[None] = []
    entries = ((f"term {number}", "x") for number in range(2000))
    Terms(entries, "el", "de", lambda: pauses.append(None))
    assert len(pauses) > 20


@pytest.mark.parametrize(("text", "shown"), list_rows("dictionaries in turn"))
def test_dictionaries_are_looked_at_in_turn(text, shown):
    first = Terms([("a", "1"), ("us", "4"), ("IT", "5")], "en", "de")
    second = Terms([("a", "9"), ("a b", "2"), ("US", "3")], "en", "de")
    assert [p.shown for p in find_terms(text, [first, second])] == shown
    assert find_kept("{server}", False, []) == []


@given(st.text(st.sampled_from("aNnTt'.,12-_ \t!{}"), max_size=12))
def test_terms_in_ascii_have_the_tokens_of_texts(term):
    tokens = terms._split(term, "en")
    assert terms._list_forms(term, "en") == [token.form for token in tokens]


def test_terms_need_little_more_memory_than_their_entries():
    entries = [(f"word{number} more", "x") for number in range(20_000)]
    size = sum(len(term) + 3 for term, _ in entries)
    Terms(entries[:9], "en", "de")  # loads numpy
    tracemalloc.start()
    terms = Terms(iter(entries), "en", "de")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 8 * size
    assert find_terms("Word77 more", [terms])
