"""Pictures: the answer of each task, and boxes over the picture."""

import sys
from base64 import b64encode

import numpy as np
import pytest
from playwright.sync_api import FilePayload, expect

from tests.handlers.encoding import write_image
from tests.page.conftest import Tab, serve_page
from tests.programs import run

VIEW = "#pictures"
PICTURE = write_image(np.full((5, 4, 3), 200, np.uint8))


def choose(tab: Tab, name: str = "a.png", kind: str = "image/png") -> None:
    given = FilePayload(name=name, mimeType=kind, buffer=PICTURE)
    tab.find("picture-file").set_input_files(given)


def check_answers(tab: Tab) -> None:
    expect(tab.find("caption")).to_contain_text(" bytes")
    expect(tab.find("labels").locator("li")).to_have_count(5)
    expect(tab.find("objects").locator("li")).to_have_count(1)


def test_a_picture_has_a_caption_labels_and_boxes_that_are_sure(tab, stage):
    choose(tab)
    check_answers(tab)
    bar = tab.find("labels").locator("meter").first
    assert bar.get_attribute("value") == "0.5"
    box = tab.page.locator("#frame rect")
    expect(box).to_have_count(1)
    expect(box).to_have_attribute("width", "2")
    # The slider shows more or fewer boxes without another request.
    asked = len(stage.torchserve.calls)
    tab.find("threshold").fill("10")
    expect(box).to_have_count(2)
    expect(tab.find("threshold-value")).to_have_text("10%")
    tab.find("threshold").fill("95")
    expect(box).to_have_count(0)
    expect(tab.find("objects")).to_have_text("Nothing that is as sure.")
    assert len(stage.torchserve.calls) == asked


def test_a_picture_can_be_pasted(tab):
    tab.page.evaluate(
        """content => {
          const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
          const given = new DataTransfer();
          given.items.add(new File([bytes], "a.png", { type: "image/png" }));
          document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: given }));
        }""",
        b64encode(PICTURE).decode(),
    )
    check_answers(tab)


def test_a_hostile_label_is_text(tab):
    answer = {"labels": [{"label": "<img src=x onerror=alert(1)>", "score": 0.5}]}
    tab.page.route("**/classify?*", lambda route: route.fulfill(json=answer))
    choose(tab)
    expect(tab.find("labels")).to_contain_text("<img src=x onerror=alert(1)>")
    assert tab.find("labels").locator("img").count() == 0


@pytest.mark.parametrize("fault", ["row-no-image", "row-out-of-memory"])
def test_what_one_task_cannot_do_does_not_hide_the_others(tab, stage, fault):
    stage.torchserve.will(fault)
    choose(tab)
    expect(tab.page.locator("#seen .wrong")).to_have_count(1)
    tab.faults.clear()  # the browser logs the status


def test_a_picture_that_was_refused_is_sent_again(tab):
    tab.refuse("**/classify?*")
    choose(tab)
    check_answers(tab)


def test_a_video_gets_the_command_that_captions_it(tab, tmp_path):
    choose(tab, "it's $(a) film.mp4", "video/mp4")
    command = tab.find("video-command").inner_text()
    echo = f"{sys.executable} -c 'import sys; print(sys.argv[1:])' "
    command = command.replace("python -m clients caption", echo)
    shown = run("sh", "-c", command, cwd=tmp_path)
    assert "\"it's $(a) film.mp4\", '-o', \"it's $(a) film.srt\"" in shown


@pytest.mark.faults
def test_a_stack_without_pictures_has_no_view_for_them(make_tab, tmp_path, idle):
    with serve_page(tmp_path, idle, tasks=()) as (url, _, _):
        tab = make_tab(f"{url}/#pictures")
        expect(tab.page.get_by_role("link", name="Pictures")).to_have_count(0)
        expect(tab.find("text")).to_be_visible()
        expect(tab.find("pictures")).to_be_hidden()
        tab.page.context.close()  # Gunicorn ends only with its last connection
