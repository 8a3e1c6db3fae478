"""Terms that are kept, and those that cannot be made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.glossaries.glossary import Choice, Draft, Limits
from gateway.glossaries.storage import open_storage
from gateway.text import shelf
from gateway.text.shelf import Shelf, TermsUnavailable

LIMITS = Limits(10, 1000)


@pytest.fixture
def choose(tmp_path):
    """Stores dictionaries from English to German, and chooses them."""
    url = f"sqlite:///{tmp_path}/db"
    storage = open_storage(url)

    def choose(*entries: bytes) -> Choice:
        ids = []
        for given in entries:
            made = storage.create("", "a", [Draft("en", "de", given, 1)], LIMITS)
            ids.append(made.dictionaries[0].id)
        return Choice(url, {"en": tuple(ids)})

    yield choose
    storage.close()


def test_terms_are_made_once(choose):
    kept, choice = Shelf(), choose(b"a\tb")
    assert not kept.has(choice, "en", "de")
    terms = kept.take(choice, "en", "de")
    assert kept.has(choice, "en", "de")
    assert kept.take(choice, "en", "de") is terms
    assert kept.take(choice, "fr", "de") is None


def test_an_entry_of_the_first_dictionary_wins(choose):
    terms = Shelf().take(choose(b"a\tb", b"a\tc\nd\te"), "en", "de")
    assert terms is not None
    assert [found.shown for found in terms.find("a d")] == ["b", "e"]


def test_the_last_that_fit_are_kept(choose, monkeypatch):
    monkeypatch.setattr(shelf, "_MOST_BYTES", 8)
    kept = Shelf()
    first, second, third = choose(b"a\tb"), choose(b"a\tc"), choose(b"a\td")
    for choice in (first, second, first, third):
        kept.take(choice, "en", "de")
    found = [kept.has(choice, "en", "de") for choice in (first, second, third)]
    assert found == [True, False, True]
    large = choose(b"a\t" + b"b" * 20)
    assert kept.take(large, "en", "de") is kept.take(large, "en", "de")
    assert not kept.has(first, "en", "de")


def test_what_cannot_be_read_is_told(choose):
    choice = choose(b"a\tb")
    for wrong in (
        replace(choice, by_source={"en": ("none",)}),
        replace(choice, database="sqlite:////proc/none/db"),
    ):
        with pytest.raises(TermsUnavailable):
            Shelf().take(wrong, "en", "de")
