"""Documents: several at once, followed while they are translated, and known after a reload."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Locator, Route, expect

from documents.storage import NOBODY, DocumentFolder, State
from tests.page.conftest import LIMIT_MS, Stage, Tab

VIEW = "#documents"
RESULT = "Bonjour\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "one.txt", tmp_path / "two & <b>.txt"]
    for path in paths:
        path.write_text("Hello\n")
    return paths


def find_job(tab: Tab, name: str) -> Locator:
    return tab.find("jobs").locator("li", has_text=name)


def find_documents(tab: Tab, stage: Stage, count: int) -> list[DocumentFolder]:
    """The documents that the browser remembers, newest first."""
    tab.page.wait_for_function(
        """count => JSON.parse(localStorage["babelgate.documents"] ?? "[]").length === count""",
        arg=count,
    )
    kept = tab.page.evaluate("JSON.parse(localStorage['babelgate.documents'])")
    return [stage.documents.find(NOBODY, job["id"]) for job in kept]


def translate(document: DocumentFolder, **changes: Any) -> None:
    """Write a state as the program for documents does."""
    document.write_state(replace(State("translating", texts=4), **changes))


def finish(document: DocumentFolder) -> None:
    document.result.write_text(RESULT)
    translate(document, status="done", texts_done=4, media_type="text/plain")


def test_several_documents_are_translated_and_downloaded(tab, stage, files):
    tab.find("document-target").select_option("fr")
    tab.find("document-files").set_input_files(files)
    for document in find_documents(tab, stage, 2):
        translate(document, texts_done=1)
    first = find_job(tab, "one.txt")
    expect(first).to_contain_text("1 of 4 texts")
    assert float(first.locator("progress").get_attribute("value") or 0) == 0.25
    for document in find_documents(tab, stage, 2):
        finish(document)
    second = find_job(tab, "two & <b>.txt")
    tab.refuse("**/result", 500, json={"detail": "Broken."})
    second.get_by_role("button", name="Download").click()
    expect(second).to_contain_text("Broken.")
    with tab.page.expect_download() as download:
        second.get_by_role("button", name="Download").click()
    expect(second).not_to_contain_text("Broken.")
    # The browser replaces characters that a file system may not allow.
    assert download.value.suggested_filename == "two & _b_.fr.txt"
    assert Path(download.value.path()).read_text() == RESULT


def test_a_document_can_be_dropped(tab, stage):
    given = tab.page.evaluate_handle(
        """() => {
          const given = new DataTransfer();
          given.items.add(new File(["Hello"], "dropped.txt", { type: "text/plain" }));
          return given;
        }"""
    )
    tab.find("document-drop").dispatch_event("dragover", {"dataTransfer": given})
    expect(tab.find("document-drop")).to_have_class("drop over")
    tab.find("document-drop").dispatch_event("drop", {"dataTransfer": given})
    expect(find_job(tab, "dropped.txt")).to_contain_text("Waiting")


def test_a_job_survives_a_reload_of_the_page_and_can_be_cancelled(tab, stage, files):
    tab.find("document-files").set_input_files(files)
    documents = find_documents(tab, stage, 2)
    tab.page.reload()
    expect(find_job(tab, "one.txt")).to_contain_text("Waiting")
    (document,) = [each for each in documents if each.order.name == "one.txt"]
    (other,) = [each for each in documents if each is not document]
    finish(other)
    expect(find_job(tab, "two & <b>.txt")).to_contain_text("Done")
    refusals = [429]

    def refuse(route: Route) -> None:
        is_refused = route.request.method == "DELETE" and refusals
        route.fulfill(status=refusals.pop()) if is_refused else route.continue_()

    tab.page.route(f"**/documents/{document.order.id}", refuse)
    with tab.page.expect_response(lambda answer: answer.status == 204):
        find_job(tab, "one.txt").get_by_role("button", name="Cancel").click()
    expect(tab.find("jobs").locator("li")).to_have_count(1)
    url = f"{stage.url}/documents/{document.order.id}"
    assert requests.get(url, timeout=LIMIT_MS).status_code == 404
    tab.faults.clear()  # the browser logs the status


def test_tabs_know_the_documents_of_each_other(tab, stage, files):
    with tab.page.context.expect_page():
        tab.page.evaluate("window.open(location.href)")
    other = Tab(tab.page.context.pages[-1])
    other.page.wait_for_selector("html[data-ready]")
    tab.find("document-files").set_input_files(files[0])
    expect(find_job(other, "one.txt")).to_contain_text("Waiting")
    other.find("document-files").set_input_files(files[1])
    find_documents(tab, stage, 2)
    find_job(other, "one.txt").get_by_role("button", name="Cancel").click()
    expect(tab.find("jobs").locator("li")).to_have_count(1)
    other.page.close()
    tab.page.reload()
    expect(find_job(tab, "two & <b>.txt")).to_contain_text("Waiting")


def test_what_is_wrong_is_said_in_words(tab, stage, files, tmp_path):
    strange = tmp_path / "strange.exe"
    strange.write_bytes(b"MZ")
    tab.find("document-files").set_input_files([strange, files[0]])
    expect(find_job(tab, "strange.exe")).to_contain_text("file is not supported.")
    tab.faults.clear()  # the browser logs the status
    (document,) = find_documents(tab, stage, 1)
    error = {"type": "urn:babelgate:damaged-document", "detail": "Line 3 is broken."}
    translate(document, status="failed", error=error)
    expect(find_job(tab, "one.txt")).to_contain_text("Line 3 is broken.")


@pytest.mark.parametrize("path", ["/documents$", "/documents/[0-9a-f]+$"])
def test_what_was_refused_is_uploaded_or_followed_further(tab, stage, files, path):
    tab.refuse(re.compile(path))
    tab.find("document-files").set_input_files(files[0])
    expect(tab.find("notice")).to_contain_text("The service is busy.")
    (document,) = find_documents(tab, stage, 1)
    finish(document)
    expect(find_job(tab, "one.txt")).to_contain_text("Done")


def test_a_refused_upload_says_so_until_it_is_cancelled(tab, stage, files):
    tab.page.wait_for_load_state("networkidle")  # the glossaries are here
    tab.find("document-files").set_input_files(files[1])
    find_documents(tab, stage, 1)
    tab.refuse("**/documents", headers={"Retry-After": "600"})
    tab.find("document-files").set_input_files(files[0])
    for _ in range(2):
        expect(tab.find("notice")).to_contain_text("again in 600 s")
        tab.page.wait_for_event("requestfinished")  # a look at the other document
    find_job(tab, "one.txt").get_by_role("button", name="Cancel").click()
    expect(tab.find("notice")).to_be_hidden()
    expect(tab.find("jobs").locator("li")).to_have_count(1)
    tab.page.get_by_role("link", name="Text").click()
    for _ in range(2):
        tab.refuse("**/documents/*", 503)
        tab.page.wait_for_event("requestfinished")
    assert tab.find("notice").is_hidden()


def test_a_file_that_goes_before_it_is_uploaded_is_not_the_services_fault(tab, files):
    def refuse(route: Route) -> None:
        files[0].unlink()
        route.fulfill(status=429, json={})

    tab.page.route("**/documents", refuse, times=1)
    tab.find("document-files").set_input_files(files[0])
    expect(find_job(tab, "one.txt")).to_contain_text("The file cannot be read.")
    expect(tab.find("notice")).to_be_hidden()
    tab.faults.clear()  # the browser logs the status


def test_what_is_kept_no_longer_or_for_another_key_says_so(tab, stage, files):
    job = find_job(tab, "one.txt")
    tab.refuse("**/documents/*", 404)
    tab.find("document-files").set_input_files(files[0])
    expect(job).to_contain_text("No longer kept")
    tab.page.evaluate("document.dispatchEvent(new Event('key'))")
    expect(job).to_contain_text("Waiting")
    (document,) = find_documents(tab, stage, 1)
    requests.delete(f"{stage.url}/documents/{document.order.id}", timeout=LIMIT_MS)
    expect(job).to_contain_text("No longer kept")
