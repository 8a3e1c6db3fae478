"""axe-core finds nothing wrong with any view, and everything works with keys alone."""

import re
from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.e2e.clients import prepare_node
from tests.page.conftest import Tab
from tests.page.views import THEMES, VIEWS, show

SENTENCE = "Where is the station?"
_CHECK = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.html.slice(0, 120)} ${node.any[0]?.message ?? ""}`));
}"""
_FOCUS = "(({id, hash, className}) => id || hash || className)(document.activeElement)"


@pytest.fixture(scope="module")
def axe() -> str:
    file = prepare_node() / "node_modules/axe-core/axe.min.js"
    return file.read_text("utf-8")


def assert_no_violation(tab: Tab, axe: str, *themes: Literal["light", "dark"]) -> None:
    """Check a page that is narrow in the first theme and wide in the second."""
    tab.page.evaluate(axe)
    for theme, width in zip(themes, (390, 1600), strict=True):
        tab.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert tab.page.evaluate(_CHECK) == [], f"{theme}, {width} px"


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "themes", [THEMES, pytest.param(THEMES[::-1], marks=pytest.mark.faults)]
)
def test_no_view_has_a_violation(make_tab, stage, axe, view, themes):
    tab = make_tab(stage.url, reduced_motion="reduce")
    show(tab.page, view)
    assert_no_violation(tab, axe, *themes)


def test_neither_has_a_page_from_right_to_left_nor_its_dialog(make_tab, stage, axe):
    tab = make_tab(stage.url, locale="ar")
    tab.page.evaluate(axe)
    assert tab.page.evaluate(_CHECK) == []
    tab.page.evaluate("document.dispatchEvent(new Event('needs-key'))")
    expect(tab.find("key-dialog")).to_be_visible()
    assert tab.page.evaluate(_CHECK) == []


def test_neither_has_the_page_without_javascript(make_tab, stage, axe):
    """axe-core is JavaScript, so it checks a copy of the page without the scripts."""
    plain = make_tab(stage.url, java_script_enabled=False)
    plain.type(SENTENCE)
    plain.page.get_by_role("button", name="Translate", exact=True).click()
    expect(plain.find("output")).to_contain_text(SENTENCE)
    copy = re.sub(r"<script.*?</script>|</?noscript>", "", plain.page.content())
    tab = make_tab(stage.url)
    tab.page.route(f"{stage.url}/plain", lambda route: route.fulfill(body=copy))
    tab.page.goto(f"{stage.url}/plain")
    expect(tab.page.get_by_role("navigation")).to_be_hidden()
    tab.page.evaluate(axe)
    assert tab.page.evaluate(_CHECK) == []


def test_keys_alone_reach_everything(tab):
    keys = tab.page.keyboard
    tab.page.locator("body").press("Shift+Tab")
    tab.find("given").focus()
    keys.type(SENTENCE)
    tab.wait_for_output(f"fr:{SENTENCE}")
    reached = set()
    for _ in range(60):
        keys.press("Tab")
        reached.add(tab.page.evaluate(_FOCUS))
    assert {
        "#documents", "#pictures", "#glossaries", "#status", "theme-button",
        "tongue", "source", "swap-button", "target", "given", "clear-button",
        "output", "sentence", "copy-button", "link-button", "format", "glossary",
        "protect", "#main",
    } <= reached  # fmt: skip
    tab.page.locator("nav").get_by_role("link", name="Documents").focus()
    keys.press("Enter")
    expect(tab.find("main")).to_be_focused()
    expect(tab.find("documents")).to_be_visible()
