"""The page where keys are required: it asks for one and keeps it in the browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from gateway.access.keys import Grant
from gateway.access.storage import KeyStorage
from tests.gateway.conftest import TASKS
from tests.page.conftest import LANGUAGES, serve_page

SENTENCE = "Where is the station?"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, idle) -> Iterator[tuple[str, str]]:
    """The URL of a gateway that requires keys, and a key."""
    folder = tmp_path_factory.mktemp("guarded")
    database = f"sqlite:///{folder / 'keys.db'}"
    storage = KeyStorage(database)
    key = storage.add("somebody", Grant())
    storage.close()
    given = {"BABELGATE_KEYS": "required", "BABELGATE_DATABASE_URL": database}
    with serve_page(folder, idle, **given) as (url, _, _):
        yield url, key


def test_a_key_is_asked_for_until_it_is_right_and_kept(make_tab, guarded):
    url, key = guarded
    tab = make_tab(url)
    expect(tab.find("key-dialog")).to_be_visible()
    tab.find("key-field").fill("bg_wrong")
    with tab.page.expect_response("**/glossaries"):
        tab.page.get_by_role("button", name="Save").click()
    tab.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert tab.find("notice").is_hidden()  # another view's
    tab.type(SENTENCE)
    expect(tab.find("key-dialog")).to_be_visible()
    expect(tab.find("state")).to_have_text("The service needs a valid key.")
    tab.faults.clear()  # the browser logs the status
    tab.find("key-field").fill(f" {key}\u200b")  # as from a web page
    tab.page.evaluate("document.dispatchEvent(new Event('needs-key'))")
    tab.page.get_by_role("button", name="Save").click()
    tab.wait_for_output(f"fr:{SENTENCE}")
    tab.page.reload()
    expect(tab.find("key-dialog")).to_be_hidden()
    tab.type(SENTENCE, f"fr:{SENTENCE}")
    tab.page.locator("nav").get_by_role("link", name="Status").click()
    expect(tab.find("figures").locator("tr")).to_have_count(len(LANGUAGES + TASKS))


def test_a_refused_key_is_asked_for_once_in_the_view_of_the_status(make_tab, guarded):
    tab = make_tab(guarded[0])
    tab.page.clock.install()
    tab.find("key-field").fill("bg_wrong")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.locator("nav").get_by_role("link", name="Status").click()
    expect(tab.find("key-dialog")).to_be_visible()
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.get_by_role("button", name="Cancel").click()
    tab.page.clock.run_for(10_000)
    expect(tab.find("key-dialog")).to_be_hidden()
    assert asked == []
    tab.faults.clear()  # the browser logs the status
    tab.page.context.close()  # with its clock


def test_without_scripts_a_link_asks_for_the_form_with_a_key(make_tab, guarded):
    url, key = guarded
    link = f"{url}/?source=en&target=de&q=Hello"
    tab = make_tab(link, java_script_enabled=False)
    expect(tab.find("state")).to_contain_text("enter it and send the form")
    expect(tab.find("given")).to_have_value("Hello")
    expect(tab.find("output")).to_be_empty()
    tab.page.get_by_role("button", name="Translate").click()
    expect(tab.find("state")).to_contain_text("A key is required")
    tab.faults.clear()  # the browser logs the status
    expect(tab.find("given")).to_have_value("Hello")
    tab.page.locator("[name=api_key]").fill(key)
    tab.page.get_by_role("button", name="Translate").click()
    expect(tab.find("output")).to_have_text("de:Hello")
    assert key not in tab.page.content()
