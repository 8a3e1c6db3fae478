"""Every view of the page with content in it. `python -m tests.page.views URL FOLDER` takes
screenshots of all views of a running stack's page, in three widths, light and dark.
"""

import io
import random
import sys
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, FilePayload, Page, expect, sync_playwright

from deploy.programs import CHROMIUM, find
from models.shapes_recipe.rendering import render
from models.shapes_recipe.scenes import draw_crowd

TEXT = """Good morning! My name is {name}.

Where is the station? Thank you very much.

See you tomorrow!"""
TERMS = [("city pass", "carte"), ("tram", "tramway"), ("line map", "plan des lignes")]
NOTES = "Good morning!\nWhere is the station?\n"
_WIDTH, _HEIGHT = 480, 360
WIDTHS = {390: 844, 1024: 768, 1600: 1000}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: The time until charts have some samples of the stack.
_LOOK_MS = 9000
#: Requests for the charts to show.
_WORK = """() => {
  const languages = JSON.parse(document.body.dataset.settings).languages;
  setInterval(() => {
    const tgt_lang = languages[Math.floor(Math.random() ** 2 * languages.length)];
    const body = JSON.stringify({ src_lang: "en", src_text: "Good morning", tgt_lang });
    fetch("translate", { method: "POST", body });
  }, 60);
}"""


@cache
def draw_picture() -> bytes:
    """A PNG of some coloured shapes."""
    scene = draw_crowd(random.Random(3), _WIDTH / _HEIGHT)
    content = io.BytesIO()
    Image.fromarray(render(scene, _WIDTH, _HEIGHT)).save(content, "PNG")
    return content.getvalue()


def _show_text(page: Page) -> None:
    page.fill("#given", TEXT)
    page.select_option("#target", "fr")
    expect(page.locator("#output mark")).to_have_count(1)


def _show_code(page: Page) -> None:
    _show_text(page)
    page.locator("#code summary").click()
    page.locator("#history summary").click()
    expect(page.locator("#code-text")).to_contain_text("curl")


def _give(page: Page, field: str, kind: str, content: bytes, *names: str) -> None:
    """Upload files of the same content."""
    files = [FilePayload(name=name, mimeType=kind, buffer=content) for name in names]
    page.set_input_files(field, files)


def _show_documents(page: Page) -> None:
    page.select_option("#document-target", "fr")
    names = ("Report.txt", "Minutes of the meeting.txt")
    _give(page, "#document-files", "text/plain", NOTES.encode(), *names)
    expect(page.locator("#jobs li")).to_have_count(len(names))


def _show_pictures(page: Page) -> None:
    _give(page, "#picture-file", "image/png", draw_picture(), "a.png")
    expect(page.locator("#labels li")).to_have_count(5)
    expect(page.locator("#objects li").first).not_to_have_text("…")
    expect(page.locator("#caption")).not_to_have_text("…")


def _show_glossaries(page: Page) -> None:
    page.click("#new-glossary")
    page.fill("#glossary-name", "Travel")
    page.select_option("#glossary-target", "fr")
    table = "".join(f"{term}\t{translation}\n" for term, translation in TERMS)
    _give(page, "#import", "text/plain", table.encode(), "a.tsv")
    expect(page.locator("#entries tr")).to_have_count(len(TERMS))


def _show_status(page: Page) -> None:
    expect(page.locator("#figures tr").first).to_be_visible()


_SHOWS: Mapping[str, tuple[str, Callable[[Page], None]]] = {
    "text": ("text", _show_text),
    "code": ("text", _show_code),
    "documents": ("documents", _show_documents),
    "pictures": ("pictures", _show_pictures),
    "glossaries": ("glossaries", _show_glossaries),
    "status": ("status", _show_status),
}
VIEWS = tuple(_SHOWS)


def show(page: Page, view: str) -> None:
    """Fill a view of a page that has just been opened."""
    name, fill = _SHOWS[view]
    page.locator(f"nav a[href='#{name}']").click()
    fill(page)


def take_screenshots(url: str, folder: Path) -> None:
    """Write a `<view>-<width>-<theme>.png` for each combination."""
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


if __name__ == "__main__":
    take_screenshots(sys.argv[1], Path(sys.argv[2]))
