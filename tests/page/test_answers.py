"""Answers: shown while they are made, with their quality, and with what they say about their
making.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Queue

import pytest
from playwright.sync_api import Route, expect

from tests.page.conftest import LIMIT_MS, Tab
from tests.scripted_server import ClosingServer, QuietHandler, reset_when_closed

SENTENCE, OTHER = "Where is the station?", "Where is the museum?"
LONG = f"{SENTENCE} {OTHER} " * 8
BEGINNINGS = ["Où est la gare ?", "Où est la gare ? Où est le musée ?"]
Send = Callable[[bytes], None]


def write_event(name: str, **content: object) -> bytes:
    data = json.dumps(content, ensure_ascii=False)
    return f"event: {name}\ndata: {data}\n\n".encode()


FIRST, SECOND = (write_event("text", index=0, translated=text) for text in BEGINNINGS)
BELOW = write_event("text", index=1, translated="Oui.")
DONE = write_event("done", translated=[BEGINNINGS[1]])
END, RESET = b"", b"reset"
PROBLEM = {"type": "urn:babelgate:internal", "detail": "It failed.", "status": 500}


@pytest.fixture
def send(tab: Tab) -> Iterator[Send]:
    """Sends pieces of the one stream that the page asks for; `END` and `RESET` end it."""
    pieces: Queue[bytes] = Queue()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.read_body()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.close_connection = True
            get = partial(pieces.get, timeout=LIMIT_MS / 1000)
            with suppress(ConnectionError):  # the page may have enough
                for piece in iter(get, END):
                    if piece == RESET:
                        reset_when_closed(self)
                        break
                    self.wfile.write(piece)

    def lead(route: Route) -> None:
        streams = route.request.headers["accept"] == "text/event-stream"
        route.continue_(url=server.url if streams else None)

    server = ClosingServer(("127.0.0.1", 0), Handler)
    server.start()
    tab.page.route("**/translate", lead)
    tab.find("source").select_option("en")
    yield pieces.put
    pieces.put(END)
    server.stop()


def test_events_are_read_wherever_their_bytes_are_cut(tab):
    read = tab.page.evaluate(
        """async (bytes) => {
          const module = document.querySelector("[href$='/events.js']").href;
          const { readEvents } = await import(module);
          const read = async (...parts) => {
            const found = [];
            const start = (sink) => {
              for (const part of parts) sink.enqueue(new Uint8Array(part));
              sink.close();
            };
            const body = new ReadableStream({ start });
            try {
              for await (const event of readEvents(body)) found.push(event);
            } catch (error) {
              found.push(error.constructor.name);
            }
            return found;
          };
          const cut = (_, at) => read(bytes.slice(0, at), bytes.slice(at));
          return Promise.all(bytes.map(cut));
        }""",
        list(b": still at work\n\n" + FIRST + DONE),
    )
    text, done = ["text", BEGINNINGS[0]], ["done", [BEGINNINGS[1]]]
    for found in read:
        *events, end = found
        assert [[name, data["translated"]] for name, data in events] == [text, done]
        assert end == "Interrupted"


def test_a_long_text_appears_while_it_is_made(tab, send):
    cut = SECOND.index("é".encode()) + 1  # inside an event, and inside a character
    with tab.page.expect_request("**/translate"):
        tab.type(f"{LONG}\nYes.")
    send(b": still at work\n\n" + BELOW + FIRST + SECOND[:cut])
    tab.wait_for_output(BEGINNINGS[0])
    expect(tab.find("output")).to_have_attribute("aria-busy", "true")
    send(SECOND[cut:])
    tab.wait_for_output(BEGINNINGS[1])
    send(write_event("done", translated=[BEGINNINGS[1], "Oui."]))
    tab.wait_for_output(f"{BEGINNINGS[1]}\nOui.")
    expect(tab.find("output")).to_have_attribute("aria-busy", "false")


def test_a_new_text_ends_the_stream_of_the_one_before(tab, send):
    tab.type(LONG)
    send(FIRST)
    tab.wait_for_output(BEGINNINGS[0])
    with tab.page.expect_event("requestfailed"):
        tab.type(OTHER)
    tab.wait_for_output(f"fr:{OTHER}")
    send(SECOND + DONE)
    expect(tab.find("output")).to_have_text(f"fr:{OTHER}")


@pytest.mark.parametrize("end", [END, RESET])
def test_what_has_come_before_a_stream_breaks_is_kept(tab, send, end):
    tab.type(LONG)
    send(FIRST)
    tab.wait_for_output(BEGINNINGS[0])
    send(end)
    expect(tab.find("state")).to_contain_text("The connection broke before the end.")
    tab.wait_for_output(BEGINNINGS[0])
    expect(tab.find("output")).to_have_attribute("aria-busy", "false")
    tab.faults.clear()  # the browser notes the reset


def test_a_problem_that_ends_a_stream_is_told_as_others_are(tab, send):
    tab.type(LONG)
    send(FIRST + write_event("error", **PROBLEM))
    expect(tab.find("state")).to_contain_text("Something went wrong in the service.")
    expect(tab.find("output")).to_be_empty()


def test_sentences_below_the_chosen_quality_are_marked(tab):
    asked = []

    def answer(route: Route) -> None:
        asked.append(route.request.post_data_json)
        made = [{"translated": "<b>Oui.</b>", "quality": 0.45}]
        made.append({"translated": "Non.", "quality": 0.6})
        whole = " ".join(each["translated"] for each in made)
        has_quality = {"quality": [0.5], "sentences": [made]}
        wanted = has_quality if asked[-1].get("quality") else {}
        route.fulfill(json={"translated": [whole], **wanted})

    tab.page.route("**/translate", answer)
    tab.find("source").select_option("en")
    tab.type("Yes. No.")
    tab.wait_for_output("<b>Oui.</b> Non.")
    weak = tab.page.locator("#output mark.weak")
    expect(weak).to_have_count(0)
    tab.find("quality").select_option("0.5")
    expect(weak).to_have_text(["<b>Oui.</b>"])
    expect(weak).to_have_attribute("title", "Quality: 45%")
    expect(weak).to_have_css("text-decoration-line", "underline")
    tab.find("quality").select_option("0.7")
    expect(weak).to_have_text(["<b>Oui.</b>", "Non."])
    assert [each.get("quality") for each in asked] == [None, True]
    tab.page.reload()
    expect(tab.find("quality")).to_have_value("0.7")


def test_an_answer_that_was_known_says_so_and_what_took_time_stands_below_its_code(
    tab, stage
):
    stage.torchserve.will("sign")
    tab.find("source").select_option("en")
    tab.type(OTHER)
    tab.wait_for_output(f"fr:{OTHER}")
    expect(tab.find("known")).to_be_hidden()
    tab.page.locator("#code summary").click()
    expect(tab.find("timing")).to_contain_text(" · compute ")
    tab.page.reload()
    tab.find("source").select_option("en")
    tab.type(OTHER)
    expect(tab.find("known")).to_have_text("Already known")
    expect(tab.find("timing-text")).to_contain_text("cache hit · gateway ")
    expect(tab.find("timing-text")).to_contain_text("@digest")
    expect(tab.find("code-text")).not_to_contain_text("explain")
