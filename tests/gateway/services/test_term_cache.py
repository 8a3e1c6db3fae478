"""Cached terms, and those that cannot be read."""

from dataclasses import replace

import pytest

from gateway.glossaries.glossary import read_entries
from text import terms
from text.errors import TermsUnavailable
from text.terms import Choice, TermCache


def make_cache() -> TermCache:
    """Make a cache of dictionaries whose ids are their entries."""
    return TermCache(lambda _, entries: entries.encode())


def choose(*entries: str) -> Choice:
    return Choice("", {"en": entries})


def test_terms_are_made_once_whatever_their_order():
    kept, choice = make_cache(), choose("a\tb", "c\td")
    assert not kept.has(choice, "en")
    first, second = kept.take(choice, "en", "de")
    assert kept.has(choice, "en")
    assert kept.take(choose("c\td", "a\tb"), "en", "de") == (second, first)
    assert kept.take(choice, "fr", "de") == ()


def test_the_last_that_fit_are_kept_and_what_a_request_needs(monkeypatch):
    monkeypatch.setattr(terms, "_MOST_BYTES", 8)
    kept = make_cache()
    first, second, third = choose("a\tb"), choose("a\tc"), choose("a\td")
    for choice in (first, second, first, third):
        kept.take(choice, "en", "de")
    found = [kept.has(choice, "en") for choice in (first, second, third)]
    assert found == [True, False, True]
    large = choose("a\t" + "b" * 20, "c\td")
    assert kept.take(large, "en", "de") == kept.take(large, "en", "de")
    assert not kept.has(first, "en")


def test_terms_that_another_request_evicts_meanwhile_are_still_found(monkeypatch):
    monkeypatch.setattr(terms, "_MOST_BYTES", 8)
    others, kept = [choose("a\tlonger")], make_cache()
    kept.take(choose("a\tb"), "en", "de")

    def pause() -> None:
        while others:
            kept.take(others.pop(), "en", "de")

    kept.pause = pause
    assert len(kept.take(choose("a\tb", "a\tc"), "en", "de")) == 2


def test_what_cannot_be_read_is_told(tmp_path):
    choice = Choice(f"sqlite:///{tmp_path}/db", {"en": ("none",)})
    for wrong in (choice, replace(choice, database="sqlite:////proc/none/db")):
        with pytest.raises(TermsUnavailable):
            TermCache(read_entries).take(wrong, "en", "de")
