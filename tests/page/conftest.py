"""A real Chromium before a real Gunicorn with a scripted TorchServe."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from re import Pattern
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect, sync_playwright

from deploy.programs import CHROMIUM, find
from documents.storage import DocumentStorage
from tests.gateway.conftest import TASKS, write_map
from tests.gateway.fake_torchserve import FakeTorchServe
from tests.gateway.test_gunicorn import Running, serve_before_fake
from tests.leaks import SHARED

LANGUAGES = ("en", "fr", "de", "ar", "ja", "ko")
#: Milliseconds until a test gives up waiting for the page.
LIMIT_MS = 30_000
expect.set_options(timeout=LIMIT_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the browser's tests as slow, and skip them where it is missing."""
    has_browser = find(CHROMIUM) is not None
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker("slow")
            if not has_browser:
                item.add_marker(pytest.mark.skip(reason="Chromium is missing"))


@dataclass
class Stage:
    """A gateway with all tasks, and the fake TorchServe behind it."""

    url: str
    torchserve: FakeTorchServe
    #: The documents uploaded to it.
    documents: DocumentStorage


@dataclass
class Tab:
    """A page of the browser, and its errors and warnings."""

    page: Page
    faults: list[str] = field(default_factory=list)
    #: The statuses of `refuse`, which the browser logs.
    refused: set[int] = field(default_factory=set)

    def find(self, name: str) -> Locator:
        return self.page.locator(f"#{name}")

    def type(self, text: str, translation: str = "") -> None:
        """Fill the pane of the text as typing does, and wait for its translation if given."""
        self.find("given").fill(text)
        if translation:
            self.wait_for_output(translation)

    def wait_for_output(self, text: str) -> None:
        """Wait until the translation is this text."""
        self.page.wait_for_function(
            """text => [...document.querySelectorAll("#output .line")]
              .map((line) => line.textContent).join("\\n") === text""",
            arg=text,
        )

    def copy(self, button: str) -> str:
        """Copy by a button, and return what the clipboard has."""
        self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.find(button).click()
        expect(self.find("notice")).to_have_text("Copied")
        return str(self.page.evaluate("navigator.clipboard.readText()"))

    def refuse(self, path: str | Pattern[str], status: int = 429, **given: Any) -> None:
        """Refuse the next request of a path."""
        answer = {"status": status, "json": {}} | given
        self.page.route(path, lambda route: route.fulfill(**answer), times=1)
        self.refused.add(status)

    @contextmanager
    def hold(self, path: str) -> Iterator[None]:
        """Let the answer to the block's request of a path come after the block."""
        held: list[Route] = []
        self.page.route(path, lambda route: held.append(route), times=1)
        with self.page.expect_request(path):
            yield
        with self.page.expect_response(path):
            held.pop().continue_()
        self.page.evaluate("() => new Promise(requestAnimationFrame)")


@pytest.fixture(scope="session")
def browser(pytestconfig: pytest.Config) -> Browser:
    shared = pytestconfig.stash[SHARED]
    playwright = shared.enter_context(sync_playwright())
    chromium = playwright.chromium.launch(
        executable_path=find(CHROMIUM), args=["--no-sandbox"]
    )
    shared.callback(chromium.close)
    return chromium


@pytest.fixture(scope="session")
def idle() -> dict[str, Tab]:
    """Unused pages by their options: a new one costs a second of CPU time."""
    return {}


@contextmanager
def serve_page(
    folder: Path,
    idle: dict[str, Tab],
    languages: Sequence[str] = LANGUAGES,
    tasks: Sequence[str] = TASKS,
    **given: str,
) -> Iterator[Running]:
    """Serve a gateway with these languages, tasks and variables, before a fake TorchServe."""
    given["BABELGATE_MAP"] = str(write_map(folder / "page.json", languages, tasks))
    given["BABELGATE_RUN_DIR"] = str(folder / "run")
    given["BABELGATE_DOCUMENTS"] = str(folder / "documents")
    with serve_before_fake(folder, **given) as running:
        yield running
        # Gunicorn ends only with its last connection.
        for tab in idle.values():
            tab.page.context.close()
        idle.clear()


@pytest.fixture(scope="session")
def running(tmp_path_factory, idle, browser, pytestconfig) -> Stage:
    """The shared stage, which needs `browser` as an argument in order to end before it."""
    folder = tmp_path_factory.mktemp("page")
    served = serve_page(folder, idle)
    url, _, fake = pytestconfig.stash[SHARED].enter_context(served)
    return Stage(url, fake, DocumentStorage(folder / "documents"))


@pytest.fixture
def stage(running: Stage) -> Stage:
    """The shared stage, with its fake TorchServe reset."""
    running.torchserve.will()
    running.torchserve.calls.clear()
    running.torchserve.translate = lambda target, text: f"{target}:{text}"
    return running


MakeTab = Callable[..., Tab]


@pytest.fixture
def make_tab(browser: Browser, idle: dict[str, Tab]) -> Iterator[MakeTab]:
    """A function that opens pages without stored data. A test removes the faults it expects
    from the list; any others fail it. A page that a test closes is not used again."""
    tabs: list[tuple[str, Tab]] = []

    def make(url: str, **options: Any) -> Tab:
        options = {"locale": "en"} | options
        kind = repr(options)
        tab = idle.pop(kind, None) or _open(browser, options)
        tabs.append((kind, tab))
        tab.page.goto(url)
        if options.get("java_script_enabled", True):
            tab.page.wait_for_selector("html[data-ready]")
        return tab

    yield make
    faults = [fault for _, tab in tabs for fault in tab.faults]
    for kind, tab in tabs:
        if kind in idle:
            tab.page.context.close()
        elif not tab.page.is_closed():
            _forget(tab)
            idle[kind] = tab
    assert faults == []


def _open(browser: Browser, options: dict[str, Any]) -> Tab:
    tab = Tab(browser.new_context(**options).new_page())
    tab.page.set_default_timeout(LIMIT_MS)
    tab.page.on("console", lambda said: _note(tab, said.type, said.text))
    tab.page.on("pageerror", lambda error: tab.faults.append(str(error)))
    return tab


def _forget(tab: Tab) -> None:
    """Reset a page to the state of a new one."""
    page, address = tab.page, urlsplit(tab.page.url)
    page.unroute_all(behavior="ignoreErrors")
    page.context.clear_permissions()
    page.set_viewport_size({"width": 1280, "height": 720})  # Playwright's default
    page.goto("about:blank")
    session = page.context.new_cdp_session(page)
    origin = f"{address.scheme}://{address.netloc}"
    everything = {"origin": origin, "storageTypes": "all"}
    session.send("Storage.clearDataForOrigin", everything)
    session.detach()
    tab.faults.clear()
    tab.refused.clear()


def _note(tab: Tab, kind: str, text: str) -> None:
    is_refused = any(f"a status of {status} " in text for status in tab.refused)
    if kind in ("error", "warning") and not is_refused:
        tab.faults.append(text)


@pytest.fixture
def tab(make_tab: MakeTab, stage: Stage, request: pytest.FixtureRequest) -> Tab:
    """The page as on a first visit, in the `VIEW` of the test's file if it names one."""
    return make_tab(f"{stage.url}/{getattr(request.module, 'VIEW', '')}")
