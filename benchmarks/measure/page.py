"""`python -m benchmarks page`: from the last key to the translation on the page, without the
time that the API takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.instruments.running import find_running
from benchmarks.instruments.workload import write_document
from benchmarks.report import FigureTable, Findings, judge, spread
from deploy.programs import CHROMIUM, find, install

#: The target: milliseconds on top of the API's.
LIMIT_MS = 150
SOURCE, TARGET = "en", "fr"
_BYTES_PER_SENTENCE = 200
#: Between two keys; people take longer.
_KEY_MS = 30
#: Notes when a key was pressed last and when the output was there, in `window.measured`.
_NOTE = """() => {
  const given = document.getElementById("given"), output = document.getElementById("output");
  window.measured = { typed: 0, shown: 0 };
  given.addEventListener("input", () => (window.measured.typed = performance.now()));
  new MutationObserver(() => (window.measured.shown = performance.now()))
    .observe(output, { childList: true });
}"""
#: The page's own milliseconds, and those of the requests after the last key.
_READ = """() => {
  const { typed, shown } = window.measured;
  const asked = performance.getEntriesByType("resource")
    .filter((entry) => entry.startTime >= typed && /identify|translate/.test(entry.name));
  const api = asked.reduce((all, entry) => all + entry.responseEnd - entry.startTime, 0);
  performance.clearResourceTimings();
  return [shown - typed - api, api];
}"""


def answer(*, sentences: int, run_dir: Path) -> Findings:
    """Measure the time that the page adds to that of the API, with the running stack."""
    lines = write_document(SOURCE, sentences * _BYTES_PER_SENTENCE).splitlines()
    typed = list(dict.fromkeys(filter(None, lines)))[:sentences]
    with open_page(find_running(run_dir).url) as page:
        own, api = zip(*measure(page, typed), strict=True)
    most = max(own)
    return Findings(
        FigureTable(
            ("takes", "ms"),
            (("the page", str(spread(own))), ("the API", str(spread(api)))),
        ),
        {"limit_ms": LIMIT_MS, "page_ms": own},
        [f"The page takes {most:.0f} ms at most: {judge(most, LIMIT_MS)} ms."],
    )


@contextmanager
def open_page(url: str) -> Iterator[Page]:
    """The page of a stack in a Chromium."""
    program = find(CHROMIUM) or install(CHROMIUM)[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"]
        )
        page = browser.new_page(locale=SOURCE)
        page.goto(f"{url}/?target={TARGET}")
        page.wait_for_selector("html[data-ready]")
        yield page
        browser.close()


def measure(page: Page, sentences: Sequence[str]) -> list[tuple[float, float]]:
    """The page's own milliseconds and the API's, for each sentence. A language that is not
    clear would not be translated, so the first request names it."""
    page.select_option("#source", SOURCE)
    page.evaluate(_NOTE)
    measured = []
    for sentence in sentences:
        page.fill("#given", "")
        page.keyboard.type(sentence, delay=_KEY_MS)
        page.wait_for_function(
            "() => document.querySelector('#output .sentence')"
            " && document.querySelector('#output').ariaBusy === 'false'"
            " && window.measured.shown > window.measured.typed"
        )
        own, api = page.evaluate(_READ)
        measured.append((own, api))
    return measured
