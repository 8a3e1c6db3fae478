"""`python -m benchmarks page`: from the last key to the translation on the page, without the
time that the API takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from playwright.sync_api import Page, sync_playwright

from benchmarks.figures import Spread, spread
from benchmarks.instruments.running import find_running
from benchmarks.instruments.sentences import write_document
from benchmarks.options import (
    DEFAULT_RUN,
    Out,
    RunDir,
    console,
    explain_errors,
    publish,
    show_progress,
)
from benchmarks.report import Content, Table
from deploy.programs import CHROMIUM, find, install

#: What is promised: milliseconds on top of the API's.
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


def command(
    *,
    sentences: Annotated[int, typer.Option(help="To type.", min=2)] = 30,
    run_dir: RunDir = DEFAULT_RUN,
    out: Out = Path("run/benchmark-page.json"),
) -> None:
    """What the page adds to the time of the API, with the running stack."""
    with explain_errors():
        lines = write_document(SOURCE, sentences * _BYTES_PER_SENTENCE).splitlines()
        typed = list(dict.fromkeys(filter(None, lines)))[:sentences]
        with open_page(find_running(run_dir).url) as page:
            measured = measure(page, typed)
        console.print(describe(measured))
        results = {"limit_ms": LIMIT_MS, "page_ms": [own for own, _ in measured]}
        content = Content("page", {"sentences": sentences}, results)
        publish(out, tabulate(measured), content)


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
    with show_progress(len(sentences)) as bar:
        for sentence in sentences:
            bar.say("types")
            page.fill("#given", "")
            page.keyboard.type(sentence, delay=_KEY_MS)
            page.wait_for_function(
                "() => document.querySelector('#output .sentence')"
                " && document.querySelector('#output').ariaBusy === 'false'"
                " && window.measured.shown > window.measured.typed"
            )
            own, api = page.evaluate(_READ)
            measured.append((own, api))
            bar.tick()
    return measured


def describe(measured: Sequence[tuple[float, float]]) -> str:
    """The result in a sentence."""
    most = max(own for own, _ in measured)
    held = "within" if most <= LIMIT_MS else "above"
    return f"The page takes {most:.0f} ms at most: {held} {LIMIT_MS} ms."


def tabulate(measured: Sequence[tuple[float, float]]) -> Table:
    """A row for the page, and one for the API."""
    own, api = zip(*measured, strict=True)
    found: dict[str, Spread] = {"the page": spread(own), "the API": spread(api)}
    rows = tuple((name, str(one)) for name, one in found.items())
    return Table(("takes", "ms"), rows)
