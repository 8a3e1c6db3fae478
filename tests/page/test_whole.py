"""The common parts of all views: words, theme, history, code, the stack's state, and its
absence."""

import sys
import time

import pytest
from playwright.sync_api import expect

from deploy.programs import NODE, find
from gateway.api.page import read_assets
from tests.gateway.conftest import TASKS
from tests.page.conftest import LANGUAGES, LIMIT_MS
from tests.programs import run

SENTENCE, OTHER = "Where is the station?", "It's “here”, isn't it?\nYes."


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.faults)])
def test_the_words_of_all_languages_fit(tab, width):
    tab.page.set_viewport_size({"width": width, "height": 800})
    for language, words in read_assets().words.items():
        tab.find("tongue").select_option(language)
        expect(tab.page.locator("html")).to_have_attribute("lang", language)
        expect(tab.page.locator("nav a").nth(1)).to_have_text(words["documents"])
        assert tab.page.evaluate(
            "() => document.documentElement.scrollWidth <= innerWidth"
        ), language


def test_the_language_and_the_theme_can_be_switched_and_stay(tab):
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = tab.page.evaluate(ground)
    for _ in range(2):
        tab.find("theme-button").click()
    expect(tab.find("theme-button")).to_have_attribute("title", "Colours: dark")
    dark = tab.page.evaluate(ground)
    assert dark != light
    tab.find("tongue").select_option("ar")
    expect(tab.page.locator("html")).to_have_attribute("dir", "rtl")
    placeholder = read_assets().words["ar"]["type_here"]
    expect(tab.find("given")).to_have_attribute("placeholder", placeholder)
    tab.page.reload()
    expect(tab.page.locator("html")).to_have_attribute("lang", "ar")
    expect(tab.find("target").locator("[value=de]")).to_have_text("الألمانية")
    assert tab.page.evaluate(ground) == dark


def test_words_that_come_late_do_not_replace_those_chosen_last(tab):
    with tab.hold("**/de.json"):
        tab.find("tongue").select_option("de")
        tab.find("tongue").select_option("fr")
        expect(tab.page.locator("html")).to_have_attribute("lang", "fr")
    expect(tab.page.locator("html")).to_have_attribute("lang", "fr")
    expect(tab.find("tongue")).to_have_value("fr")


def test_words_that_are_refused_are_asked_for_again(tab):
    problem = {"status": 503, "detail": "Restarting."}
    for act in (lambda: tab.find("tongue").select_option("de"), tab.page.reload):
        tab.refuse("**/de.json", 503, json=problem)
        act()
        expect(tab.find("notice")).to_contain_text("The service cannot be reached.")
        expect(tab.page.locator("html")).to_have_attribute("lang", "de")
        expect(tab.page.locator("nav a").nth(1)).to_have_text("Dokumente")


def test_a_history_of_long_texts_keeps_the_latest(tab):
    tab.page.locator("#history summary").click()
    tab.find("keeps-history").check()
    tab.page.evaluate(
        """() => {
          for (let number = 1; number <= 50; number += 1) {
            const text = number + " x\\n".repeat(33_000);
            const detail = { source: "en", target: "fr", text };
            document.dispatchEvent(new CustomEvent("settled", { detail }));
          }
        }"""
    )
    expect(tab.find("past").get_by_role("button").first).to_contain_text("50 x")


def test_there_is_no_history_until_somebody_wants_one(tab):
    tab.page.clock.install()
    tab.page.locator("#history summary").click()
    tab.type(SENTENCE)
    tab.page.clock.run_for(500)
    tab.wait_for_output(f"fr:{SENTENCE}")
    tab.page.clock.run_for(5000)
    expect(tab.find("past").locator("li")).to_have_count(0)
    tab.find("keeps-history").check()
    tab.type(f"{SENTENCE} Please.")
    tab.page.clock.run_for(500)
    tab.wait_for_output(f"fr:{SENTENCE} fr:Please.")
    tab.page.clock.run_for(5000)
    past = tab.find("past").locator("li")
    expect(past).to_have_count(1)
    tab.find("clear-button").click()
    past.get_by_role("button").click()
    expect(tab.find("given")).to_have_value(f"{SENTENCE} Please.")
    tab.find("forget").click()
    expect(past).to_have_count(0)
    kept = "() => localStorage.getItem('babelgate.history')"
    assert tab.page.evaluate(kept) is None
    tab.page.context.close()  # with its clock


@pytest.mark.parametrize("program", ["curl", "python", "javascript"])
def test_what_is_on_the_page_works_as_code(tab, stage, program):
    tab.find("source").select_option("en")
    tab.find("target").select_option("de")
    tab.type(OTHER)
    tab.page.locator("#code summary").click()
    tab.page.locator(f"[value={program}] + span").click()
    command = {
        "curl": ["bash", "-c"],
        "python": [sys.executable, "-c"],
        "javascript": [str(find(NODE)), "--input-type=module", "-e"],
    }[program]
    code = ""
    for interface in ("libretranslate", "deepl", "google", "ours"):
        tab.page.locator(f"[value={interface}] + span").click()
        expect(tab.find("code-text")).to_contain_text(f"{stage.url}/")
        assert tab.find("code-text").inner_text() != code
        code = tab.find("code-text").inner_text()
        said = run(*command, code, limit_s=LIMIT_MS / 1000)
        assert "de:It's “here”, isn't it?" in said
        assert "de:Yes." in said
    tab.type("true")
    expect(tab.find("code-text")).to_contain_text('"true"')


def test_the_state_of_the_stack_is_shown_and_refreshed(tab, stage):
    tab.page.locator("nav").get_by_role("link", name="Status").click()
    rows = tab.find("figures").locator("tr")
    expect(rows).to_have_count(len(LANGUAGES + TASKS))
    german = rows.filter(has_text="German")
    expect(german).to_contain_text("cpu")
    expect(german.get_by_label("ready", exact=True)).to_be_visible()
    tab.page.evaluate(
        """() => fetch("translate", { method: "POST", body: JSON.stringify(
          { src_lang: "en", src_text: "Hello", tgt_lang: "de" }) })"""
    )
    expect(german.locator(".trend b").first).not_to_have_text("0")
    stage.torchserve.loading.add("de")
    try:
        expect(german.get_by_label("not ready")).to_be_visible()
    finally:
        stage.torchserve.loading.clear()


@pytest.mark.parametrize("view", ["Status", "Glossaries"])
def test_a_view_takes_its_notice_along_and_opens_in_another_tab(tab, view):
    problem = {"type": "urn:babelgate:key-not-allowed"}
    tab.refuse(f"**/{view.lower()}", 403, json=problem)
    views = tab.page.locator("nav")
    views.get_by_role("link", name=view).click()
    expect(tab.find("notice")).to_have_text("The service needs a valid key.")
    views.get_by_role("link", name="Text").click()
    expect(tab.find("notice")).to_be_hidden()
    with tab.page.context.expect_page() as other:
        views.get_by_role("link", name="Documents").click(modifiers=["Control"])
    other.value.close()
    expect(tab.find("text")).to_be_visible()


# A proxy may answer with a date, for which the page waits a second.
@pytest.mark.parametrize("after", ["1", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_busy_stack_is_asked_again_when_it_wants_to_be(tab, stage, after):
    busy = {"type": "urn:babelgate:queue-full", "detail": "Full.", "status": 429}
    tab.refuse("**/translate", json=busy, headers={"Retry-After": after})
    with tab.page.expect_response("**/translate"):
        tab.type(SENTENCE)
    began = time.monotonic()
    expect(tab.find("notice")).to_contain_text("The service is busy.")
    tab.wait_for_output(f"fr:{SENTENCE}")
    assert time.monotonic() - began > 0.5
