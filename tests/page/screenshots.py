"""`python -m tests.page.screenshots URL FOLDER`: every view of a running stack's page in three
widths, light and dark.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from deploy.programs import CHROMIUM, find
from tests.page.views import VIEWS, show

WIDTHS = {390: 844, 1024: 768, 1600: 1000}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Charts need some looks at the stack.
_LOOK_MS = 9000


def take_screenshots(url: str, folder: Path) -> None:
    """Writes `<view>-<width>-<theme>.png` for each."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find(CHROMIUM), args=["--no-sandbox"]
        )
        for view in VIEWS:
            page = _open(browser, url, view)
            for (width, height), theme in product(WIDTHS.items(), THEMES):
                page.set_viewport_size({"width": width, "height": height})
                page.emulate_media(color_scheme=theme)
                page.evaluate("y => scrollTo(0, y)", 10_000 if view == "code" else 0)
                path = folder / f"{view}-{width}-{theme}.png"
                page.screenshot(path=path, animations="disabled")
            page.context.close()
        browser.close()


def _open(browser: Browser, url: str, view: str) -> Page:
    page = browser.new_context(locale="en").new_page()
    page.goto(url)
    page.wait_for_selector("html[data-ready]")
    show(page, view)
    if view == "status":
        page.evaluate(_WORK)
        page.wait_for_timeout(_LOOK_MS)
    if view == "documents":
        expect(page.locator("#jobs li", has_text="Done")).not_to_have_count(0)
    return page


#: Something to see in the charts.
_WORK = """() => {
  const languages = JSON.parse(document.body.dataset.settings).languages;
  setInterval(() => {
    const tgt_lang = languages[Math.floor(Math.random() ** 2 * languages.length)];
    const body = JSON.stringify({ src_lang: "en", src_text: "Good morning", tgt_lang });
    fetch("translate", { method: "POST", body });
  }, 60);
}"""

if __name__ == "__main__":
    take_screenshots(sys.argv[1], Path(sys.argv[2]))
