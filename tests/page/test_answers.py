"""Answers: shown while they are made, with their quality, cache hits and timings."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Queue

import pytest
from playwright.sync_api import Route, expect

from tests.fake_api import write_event
from tests.page.conftest import LIMIT_MS, Tab
from tests.scripted_server import ClosingServer, QuietHandler, reset_when_closed

SENTENCE = "Where is the museum?"
LONG = f"{SENTENCE} " * 16
BEGINNINGS = ("Où est la gare ?", "Où est la gare ? Où est le musée ?")
END, RESET = b"", b"reset"
Send = Callable[[bytes], None]
FIRST, SECOND = (write_event("text", index=0, translated=text) for text in BEGINNINGS)
BELOW = write_event("text", index=1, translated="Oui.")
FAILURE = write_event("error", type="urn:babelgate:internal", status=500)


@pytest.fixture
def send(tab: Tab) -> Iterator[Send]:
    """A function that sends pieces of the page's only stream; `END` and `RESET` end it."""
    pieces: Queue[bytes] = Queue()
    take = partial(pieces.get, timeout=LIMIT_MS / 1000)

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.read_body()
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            with suppress(ConnectionError):  # the page may abort the request
                for piece in iter(take, END):
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


def test_a_long_text_appears_while_it_is_made(tab, send):
    cut = SECOND.index("é".encode()) + 1  # inside an event, and inside a character
    tab.type(f"{LONG}\nYes.")
    send(b": still at work\n\n" + BELOW + FIRST + SECOND[:cut])
    tab.wait_for_output(BEGINNINGS[0])  # and nothing below the growing text
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
        tab.type(SENTENCE, f"fr:{SENTENCE}")


@pytest.mark.parametrize(
    ("end", "said", "kept"),
    [
        (END, "The connection broke before the end.", BEGINNINGS[0]),
        (RESET, "The connection broke before the end.", BEGINNINGS[0]),
        (FAILURE, "Something went wrong in the service.", ""),
    ],
    ids=["end", "reset", "error"],
)
def test_a_stream_that_breaks_keeps_what_has_come(tab, send, end, said, kept):
    tab.type(LONG)
    send(FIRST)
    tab.wait_for_output(BEGINNINGS[0])
    send(end)
    expect(tab.find("state")).to_contain_text(said)
    expect(tab.find("output")).to_have_text(kept)
    expect(tab.find("output")).to_have_attribute("aria-busy", "false")
    tab.faults.clear()  # the browser logs the reset


def test_parts_of_a_refused_attempt_do_not_go_on_beside_the_next_one(tab):
    held: list[Route] = []

    def answer(route: Route) -> None:
        (line,) = json.loads(route.request.post_data or "")["src_text"]
        if not held:
            held.append(route)
        elif len(held) == 1 and "Yes." in line:
            held.append(route)
            route.fulfill(status=429, json={})
        else:
            route.fulfill(body=write_event("done", translated=["Oui."]))

    tab.page.route("**/translate", answer)
    tab.find("source").select_option("en")
    with tab.page.expect_event("requestfailed"):
        tab.type(f"{LONG * 2}\n{LONG * 2} Yes.", "Oui.\nOui.")
    expect(tab.find("output")).to_have_attribute("aria-busy", "false")
    tab.faults.clear()  # the browser logs the status


def test_a_refusal_that_is_aborted_while_it_comes_says_nothing(tab):
    tab.page.evaluate(
        """() => {
          const ask = window.fetch;
          window.fetch = async (url, { signal }) => {
            window.fetch = ask;
            const start = (body) => {
              signal.addEventListener("abort", () => body.error(signal.reason));
            };
            return new Response(new ReadableStream({ start }), { status: 429 });
          };
          const notice = document.getElementById("notice");
          const watcher = new MutationObserver(() => (window.said ??= notice.textContent));
          watcher.observe(notice, { childList: true });
        }"""
    )
    tab.type("Yes.")
    tab.page.wait_for_function("() => String(window.fetch).includes('native')")
    tab.type(SENTENCE, f"fr:{SENTENCE}")
    assert not tab.page.evaluate("window.said")


def test_sentences_below_the_chosen_quality_are_marked(tab):
    made = [("<b>Oui.</b>", 0.45), ("Non.", 0.6)]
    sentences = [{"translated": text, "quality": quality} for text, quality in made]
    asked = []

    def answer(route: Route) -> None:
        fields = json.loads(route.request.post_data or "")
        asked.append("quality" in fields)
        found = {"sentences": [sentences]} if asked[-1] else {}
        route.fulfill(json={"translated": ["<b>Oui.</b> Non."], **found})

    tab.page.route("**/translate", answer)
    tab.find("source").select_option("en")
    tab.type("Yes. No.", "<b>Oui.</b> Non.")
    weak = tab.page.locator("#output mark.weak")
    expect(weak).to_have_count(0)
    tab.find("quality").select_option("0.5")
    expect(weak).to_have_text("<b>Oui.</b>")
    expect(weak).to_have_attribute("title", "Quality: 45%")
    expect(weak).to_have_css("text-decoration-line", "underline")
    tab.find("quality").select_option("0.7")
    expect(weak).to_have_text(["<b>Oui.</b>", "Non."])
    assert asked == [False, True]
    tab.page.reload()
    expect(tab.find("quality")).to_have_value("0.7")


def test_other_translations_are_those_of_the_sentence_chosen_last(tab):
    held: list[Route] = []

    def answer(route: Route) -> None:
        text = json.loads(route.request.post_data or "")["src_text"]
        if text == "Yes?":
            held.append(route)
        else:
            other = {"text": "Nein.", "score": 0}
            route.fulfill(json={"translated": text, "alternatives": [other]})

    tab.find("source").select_option("en")
    tab.type("Yes? No.")
    sentences = tab.page.locator("#output .sentence")
    expect(sentences).to_have_count(2)
    tab.page.route("**/translate", answer)
    with tab.page.expect_request("**/translate"):
        sentences.first.click()
    with tab.page.expect_event("requestfailed"):
        sentences.last.click()
    expect(tab.find("others").get_by_role("button").last).to_have_text("Nein.")
    assert len(held) == 1


def test_a_warning_marks_all_sentences_that_it_names(tab):
    line = "😀😀😀😀😀 One. Two three. Four. Five."
    places = [f"{line.index(word)}-{line.index(word) + 4}" for word in ("One", "Four")]
    warning = f"src_text[0]: characters {', '.join(places)} and 1 more: doubtful"
    answer = {"translated": [line], "warnings": [warning]}
    tab.page.route("**/translate", lambda route: route.fulfill(json=answer))
    tab.find("source").select_option("en")
    tab.type(line)
    marked = tab.page.locator("#output .doubtful")
    expect(marked).to_have_text(["😀😀😀😀😀 One. ", "Four. "])


def test_a_known_answer_says_so_and_the_times_stand_below_its_code(tab, stage):
    stage.torchserve.will("sign")
    for is_known, shown in ((False, " · compute "), (True, "cache hit · gateway ")):
        tab.page.reload()  # which forgets earlier answers
        tab.find("source").select_option("en")
        tab.type(SENTENCE, f"fr:{SENTENCE}")
        expect(tab.find("known")).to_be_visible(visible=is_known)
        tab.page.locator("#code summary").click()
        expect(tab.find("timing-text")).to_contain_text(shown)
        expect(tab.find("timing-text")).to_contain_text("@digest")
