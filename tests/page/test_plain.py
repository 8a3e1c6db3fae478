"""Without JavaScript, the form alone translates."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.conftest import MakeTab, Stage, Tab

SENTENCE = "Where is the station?"
HOSTILE = "</textarea><img src=x onerror=alert(1)>"


@pytest.fixture
def tab(make_tab: MakeTab, stage: Stage) -> Tab:
    return make_tab(stage.url, java_script_enabled=False)


def send(tab: Tab, text: str, target: str, button: str = "Translate") -> None:
    tab.type(text)
    tab.find("target").select_option(target)
    tab.page.get_by_role("button", name=button, exact=True).click()


def test_a_text_is_translated(tab):
    send(tab, SENTENCE, "ar")
    expect(tab.find("output")).to_have_text(f"ar:{SENTENCE}")
    expect(tab.find("output")).to_have_attribute("dir", "rtl")
    expect(tab.find("output")).to_have_attribute("lang", "ar")
    expect(tab.find("given")).to_have_value(SENTENCE)
    expect(tab.find("target")).to_have_value("ar")


def test_a_translation_may_have_a_link(tab):
    send(tab, SENTENCE, "de", "Translate with a link to keep")
    assert "q=Where+is+the+station" in tab.page.url
    expect(tab.find("output")).to_have_text(f"de:{SENTENCE}")


def test_a_text_that_is_too_long_for_a_link_is_translated(tab):
    text = "\n".join([f"{SENTENCE} " * 20] * 160)
    send(tab, text, "de")
    assert tab.page.url.endswith("/page")
    shown = tab.find("output").inner_text()
    assert shown.count(f"de:{SENTENCE}") == 20 * 160


def test_what_is_hostile_is_text(tab, stage):
    stage.torchserve.translate = lambda target, text: HOSTILE
    send(tab, HOSTILE, "de")
    expect(tab.find("given")).to_have_value(HOSTILE)
    expect(tab.find("output")).to_contain_text("<img src=x onerror=alert(1)>")
    assert tab.page.locator("main img:visible").count() == 0


def test_an_error_is_on_the_page(tab, stage):
    stage.torchserve.will("row-broken")
    send(tab, SENTENCE, "de")
    expect(tab.find("state")).to_contain_text("The handler says internal.")
    expect(tab.find("given")).to_have_value(SENTENCE)
    tab.faults.clear()  # the browser notes the status


def test_nothing_is_shown_that_needs_scripts(tab):
    for part in ("nav", "#swap-button", "#code", "#history", "#theme-button"):
        expect(tab.page.locator(part)).to_be_hidden()
