"""The menus of a map with many languages: a field finds one by keys alone."""

import pytest
from playwright.sync_api import expect
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

from contract.languages import find_tag
from tests.page.conftest import MakeTab, Tab, serve_page
from tests.page.test_accessibility import assert_no_violation, axe
from tests.page.views import THEMES

__all__ = ["axe"]


@pytest.fixture(scope="module")
def url(tmp_path_factory, idle):
    folder = tmp_path_factory.mktemp("languages")
    languages = [*filter(None, map(find_tag, NLLB))]
    with serve_page(folder, idle, languages, ()) as (url, _, fake):
        fake.translate = lambda target, text: f"{target}:{text}"
        yield url


@pytest.fixture
def many(make_tab: MakeTab, url: str) -> Tab:
    return make_tab(url)


def open_menu(tab: Tab) -> None:
    tab.find("target").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.find("picker-search")).to_be_focused()


def choose(tab: Tab, typed: str, *keys: str) -> None:
    open_menu(tab)
    tab.page.keyboard.type(typed)
    for key in keys:
        tab.page.keyboard.press(key)


def test_a_language_is_found_by_any_of_its_names_and_with_keys_alone(many):
    options = many.find("target").locator("option")
    expect(options).to_have_count(205)  # with the variants of Chinese and Serbian
    for typed, code in (
        ("wolo", "wo"),
        ("ไทย", "th"),
        ("francais", "fr"),
        ("kashmiri (d", "ks-Deva"),
        ("kab", "kea"),  # the first is Kabiyè
    ):
        keys = ["ArrowDown"] if code == "kea" else []
        choose(many, typed, *keys, "Enter")
        expect(many.find("picker")).to_be_hidden()
        expect(many.find("target")).to_be_focused()
        expect(many.find("target")).to_have_value(code)
    choose(many, "wolo")
    composing = {"key": "Enter", "isComposing": True}
    many.find("picker-search").dispatch_event("keydown", composing)
    expect(many.find("picker")).to_be_visible()
    many.page.keyboard.press("Escape")
    many.find("source").select_option("en")
    many.type("Hello")
    many.wait_for_output("kea:Hello")
    choose(many, "no such language", "Enter", "Escape")
    expect(many.find("target")).to_have_value("kea")


def test_a_menu_opens_by_a_click_and_shows_what_is_chosen(many):
    many.find("target").select_option("ar")
    many.find("target").press("z")
    expect(many.find("picker-search")).to_have_value("z")
    many.page.keyboard.press("Escape")
    many.find("target").click()
    chosen = many.find("picker-list").locator("[aria-selected=true]")
    expect(chosen).to_have_text("Arabic")
    many.find("picker-list").get_by_text("Zulu", exact=True).click()
    expect(many.find("target")).to_have_value("zu")


def test_an_open_menu_has_no_violation(many, axe):
    open_menu(many)
    assert_no_violation(many, axe, *THEMES)
    many.page.keyboard.type("no such language")
    assert_no_violation(many, axe, *THEMES)
