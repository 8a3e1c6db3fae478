"""Terms that are kept, and those that cannot be made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.glossaries.glossary import DictionaryDraft, GlossaryLimits
from gateway.glossaries.storage import open_storage
from gateway.glossaries.terms import read_entries
from text import terms
from text.errors import TermsUnavailable
from text.terms import Choice, TermCache, find_terms

LIMITS = GlossaryLimits(10, 1000)


@pytest.fixture
def choose(tmp_path):
    """Stores dictionaries from English to German, and chooses them."""
    url = f"sqlite:///{tmp_path}/db"
    storage = open_storage(url)

    def choose(*entries: bytes) -> Choice:
        ids = []
        for given in entries:
            made = storage.create(
                "", "a", [DictionaryDraft("en", "de", given, 1)], LIMITS
            )
            ids.append(made.dictionaries[0].id)
        return Choice(url, {"en": tuple(ids)})

    yield choose
    storage.close()


def test_terms_are_made_once_whatever_their_order(choose):
    kept, choice = TermCache(read_entries), choose(b"a\tb", b"c\td")
    assert not kept.has(choice, "en")
    first, second = kept.take(choice, "en", "de")
    assert kept.has(choice, "en")
    turned = replace(choice, by_source={"en": choice.by_source["en"][::-1]})
    assert kept.take(turned, "en", "de") == (second, first)
    assert kept.take(choice, "fr", "de") == ()


def test_an_entry_of_the_first_dictionary_wins(choose):
    terms = TermCache(read_entries).take(choose(b"a\tb", b"a\tc\nd\te"), "en", "de")
    assert [found.shown for found in find_terms("a d", terms)] == ["b", "e"]


def test_the_last_that_fit_are_kept_and_what_a_request_needs(choose, monkeypatch):
    monkeypatch.setattr(terms, "_MOST_BYTES", 8)
    kept = TermCache(read_entries)
    first, second, third = choose(b"a\tb"), choose(b"a\tc"), choose(b"a\td")
    for choice in (first, second, first, third):
        kept.take(choice, "en", "de")
    found = [kept.has(choice, "en") for choice in (first, second, third)]
    assert found == [True, False, True]
    large = choose(b"a\t" + b"b" * 20, b"c\td")
    assert kept.take(large, "en", "de") == kept.take(large, "en", "de")
    assert not kept.has(first, "en")


def test_what_cannot_be_read_is_told(choose):
    choice = choose(b"a\tb")
    for wrong in (
        replace(choice, by_source={"en": ("none",)}),
        replace(choice, database="sqlite:////proc/none/db"),
    ):
        with pytest.raises(TermsUnavailable):
            TermCache(read_entries).take(wrong, "en", "de")
