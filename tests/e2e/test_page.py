"""The page of a real stack: texts, and a gateway that dies and returns."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from deploy.programs import CHROMIUM, find
from deploy.stack import Stack
from tests.e2e.real_stack import is_ready, wait_until
from tests.page.conftest import LIMIT_MS, browser

__all__ = ["browser"]

pytestmark = pytest.mark.skipif(find(CHROMIUM) is None, reason="Chromium is missing")

SENTENCE, TRANSLATION = "Where is the station?", "Où est la gare ?"


@pytest.fixture
def page(browser: Browser, stack: Stack) -> Iterator[Page]:
    found = browser.new_page(locale="en")
    found.set_default_timeout(LIMIT_MS)
    found.goto(f"{stack.url}/?target=fr")
    found.wait_for_selector("html[data-ready]")
    yield found
    found.close()


def test_a_gateway_that_dies_is_a_sentence_and_it_comes_back_by_itself(page, stack):
    page.select_option("#source", "en")
    leader = stack.find_leader("gateway")
    for process in (leader, *leader.children()):
        process.kill()
    page.fill("#given", SENTENCE)
    expect(page.locator("#notice")).to_contain_text("tries again by itself")
    expect(page.locator("#output")).to_have_text(TRANSLATION)
    expect(page.locator("#notice")).to_be_hidden()
    wait_until(lambda: is_ready(stack.url))
