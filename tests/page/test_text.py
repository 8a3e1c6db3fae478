"""Texts: translated while the user types, even if answers come late or in another order, and by
the form alone without JavaScript.
"""

from urllib.parse import urlencode

from playwright.sync_api import expect

from tests.page.conftest import Tab

SENTENCE, OTHER = "Where is the station?", "Where is the museum?"
HOSTILE = '<img src=x onerror="document.title=1">[a](javascript:alert(1))\u202e'


def write_link(url: str, **fields: str) -> str:
    return f"{url}/?{urlencode(fields)}"


def test_a_text_is_translated_while_it_is_typed(tab):
    tab.type(SENTENCE, f"fr:{SENTENCE}")
    expect(tab.find("guess")).to_contain_text("English, ")
    expect(tab.find("target")).to_have_value("fr")
    expect(tab.find("output")).to_have_attribute("lang", "fr")
    expect(tab.find("output")).to_have_attribute("aria-busy", "false")
    expect(tab.find("left")).to_have_text(f"{100_000 - len(SENTENCE):,}")


def test_a_language_that_is_not_clear_is_asked_for_and_offered(tab):
    tab.type("Taxi")
    expect(tab.find("state")).to_contain_text("The language is not clear.")
    expect(tab.find("output")).to_be_empty()
    tab.find("guess").get_by_role("button").first.click()
    expect(tab.find("source")).not_to_have_value("auto")
    expect(tab.find("output")).to_contain_text(":Taxi")


def test_a_word_of_several_languages_counts_as_the_one_used_last(tab):
    # The beginning that is identified ends in the middle of the emoji.
    tab.type("¿Dónde está la estación? " * 79 + "¿Dónde está?".ljust(24) + "😀")
    expect(tab.find("output")).to_contain_text(":¿Dónde")
    tab.page.wait_for_function("() => localStorage.getItem('babelgate.used')")
    tab.type("grande")
    expect(tab.find("output")).to_contain_text(":grande")
    expect(tab.find("guess")).to_contain_text("Spanish, ")


def hold_answers(tab: Tab) -> None:
    """Hold the answers to requests with the word `late` until the test releases them, even if
    the page has aborted the requests."""
    tab.page.evaluate(
        """() => {
          const ask = window.fetch;
          window.late = [];
          window.answered = 0;
          window.fetch = async (url, options = {}) => {
            const answer = await ask(url, { ...options, signal: undefined });
            if (String(options.body).includes("late.")) {
              await new Promise((resolve) => window.late.push(resolve));
            }
            window.answered += 1;
            return answer;
          };
        }"""
    )


def test_an_answer_that_comes_too_late_is_not_shown(tab):
    """The browser cannot abort a request whose answer has arrived."""
    hold_answers(tab)
    tab.find("source").select_option("en")
    tab.find("target").select_option("de")
    tab.type("This is late.")
    tab.page.wait_for_function("() => window.late.length === 1")
    tab.type(SENTENCE, f"de:{SENTENCE}")
    tab.page.evaluate("window.late[0]()")
    tab.type(OTHER, f"de:{OTHER}")


def test_right_to_left_languages_are_right_to_left_in_both_panes(make_tab, stage):
    for source, target, text, *directions in (
        ("en", "ar", SENTENCE, "ltr", "rtl"),
        ("ar", "fr", "أين المحطة؟", "rtl", "ltr"),
    ):
        tab = make_tab(write_link(stage.url, source=source, target=target, q=text))
        expect(tab.find("output")).to_contain_text(f"{target}:")
        panes = (tab.find("given"), tab.find("output"))
        assert [pane.get_attribute("dir") for pane in panes] == directions


def test_a_link_has_the_languages_and_the_text(make_tab, stage):
    link = write_link(stage.url, source="en", target="de", q=SENTENCE)
    tab = make_tab(link)
    tab.wait_for_output(f"de:{SENTENCE}")
    assert tab.copy("link-button") == link


def test_languages_can_be_swapped_and_are_remembered(tab):
    tab.type(SENTENCE, f"fr:{SENTENCE}")
    tab.find("swap-button").click()
    expect(tab.find("given")).to_have_value(f"fr:{SENTENCE}")
    expect(tab.find("source")).to_have_value("fr")
    expect(tab.find("target")).to_have_value("en")
    tab.page.reload()
    expect(tab.find("source")).to_have_value("fr")
    expect(tab.find("target")).to_have_value("en")
    tab.find("source").select_option("auto")
    tab.find("swap-button").click()  # with no text, whose language would be the target
    expect(tab.find("source")).to_have_value("en")
    expect(tab.find("target")).not_to_have_value("en")


def test_a_text_that_is_swapped_before_it_is_translated_stays(tab):
    hold_answers(tab)
    tab.find("source").select_option("en")
    tab.type(SENTENCE, f"fr:{SENTENCE}")
    tab.type("This is late.")
    tab.page.wait_for_function("() => window.late.length === 1")
    tab.find("swap-button").click()
    expect(tab.find("given")).to_have_value("This is late.")
    tab.type(OTHER)
    tab.find("swap-button").click()
    expect(tab.find("given")).to_have_value(OTHER)


def test_a_text_can_be_pasted_copied_and_cleared(tab):
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.page.evaluate("text => navigator.clipboard.writeText(text)", SENTENCE)
    tab.find("paste-button").click()
    tab.wait_for_output(f"fr:{SENTENCE}")
    assert tab.copy("copy-button") == f"fr:{SENTENCE}"
    tab.find("clear-button").click()
    expect(tab.find("given")).to_have_value("")
    expect(tab.find("output")).to_be_empty()
    tab.page.keyboard.press("Control+Z")
    tab.wait_for_output(f"fr:{SENTENCE}")


def test_a_sentence_offers_others_by_a_click_and_by_keys(tab, stage):
    line = f"{SENTENCE} {OTHER}"
    tab.type(f"{line}\n{line}", "\n".join([f"fr:{SENTENCE} fr:{OTHER}"] * 2))
    stage.torchserve.will("choose", "choose")
    first, second = (tab.page.locator(".sentence").nth(number) for number in (0, 1))
    first.focus()
    first.press("ArrowRight")
    expect(second).to_be_focused()
    tab.page.keyboard.press("Enter")
    expect(tab.find("others").get_by_role("button").first).to_be_focused()
    tab.page.keyboard.press("Escape")
    expect(tab.find("others")).to_be_hidden()
    second.click()
    offered = tab.find("others").get_by_role("button").nth(1)
    text = offered.inner_text()
    assert text.startswith("fr:Where is the museum")
    offered.click()
    tab.wait_for_output("\n".join([f"fr:{SENTENCE} {text}"] * 2))
    tab.type(f"{line}\nYes.", f"fr:{SENTENCE} {text}\nfr:Yes.")


def test_what_was_kept_is_marked_and_so_are_tags_of_html(tab):
    kinds = ["{name}", "https://example.org/a", "`x = 1`", "5 km", ":name", "{a=b}"]
    kinds += ["{% if x %}", "<0>", "</0>", "$t(key)", "@:key", "%.2f", "🇩🇪"]
    text = f"My name is {', and I see '.join(kinds)} and "
    text += f"A{'1' * 60}_."  # no number of a product, and quickly known as none
    tab.type(text, f"fr:{text}")
    kept = tab.page.locator("#output mark").all_text_contents()
    assert kept == kinds
    tab.find("format").select_option("html")
    tab.type("<p>Where is <b>the station</b>?</p><!-- open")
    tab.wait_for_output("<p>fr:Where is <b>the station</b>?</p><!-- open")
    kept = tab.page.locator("#output mark").all_text_contents()
    assert kept == ["<p>", "<b>", "</b>", "</p>", "<!-- open"]


def test_a_warning_stands_below_its_line(tab, stage):
    stage.torchserve.will("echo", "doubt")
    tab.type(f"{SENTENCE}\n{OTHER}")
    warning = tab.page.locator(".warning")
    expect(warning).to_contain_text("The model is not sure.")
    assert tab.page.locator(".doubtful").count() == 1
    assert tab.copy("copy-button") == f"fr:{SENTENCE}\nfr:{OTHER}"


def test_lines_that_are_known_are_not_asked_for_again(tab):
    tab.find("source").select_option("en")
    tab.page.evaluate(
        """() => {
          let isSlow = false;
          window.asked = 0;
          window.fetch = async (_, { body, headers }) => {
            const { src_text } = JSON.parse(body);
            window.asked += src_text.length;
            if (src_text.includes("Line 99")) {
              if (isSlow) await new Promise((resolve) => setTimeout(resolve, 1000));
              isSlow = true;
            }
            const translated = src_text.map((line) => `fr:${line}`);
            const json = JSON.stringify({ translated });
            return new Response(headers.Accept ? `event: done\\ndata: ${json}\\n\\n` : json);
          };
        }"""
    )
    lines = [f"Line {number}" for number in range(2100)]
    # The page knows the lines of a text and 2,000 others, not the first two of those before.
    for given in ([*lines, "first"], [*lines, "second"], [*lines[:98], "", lines[97]]):
        tab.type("\n".join(given), "\n".join(line and f"fr:{line}" for line in given))
        expect(tab.find("output")).to_have_attribute("aria-busy", "false")
        expect(tab.find("output")).not_to_be_empty()
    assert tab.page.evaluate("window.asked") == len(lines) + 4


def test_a_text_that_is_too_long_is_not_cut_but_refused(tab):
    tab.type("a" * 100_001)
    expect(tab.find("state")).to_have_text("The text is 1 characters too long.")
    expect(tab.find("left")).to_have_text("-1")


def test_a_hostile_translation_is_text(tab, stage):
    stage.torchserve.translate = lambda target, text: HOSTILE
    tab.type(SENTENCE)
    expect(tab.find("output")).to_contain_text("<img src=x onerror=")
    assert tab.page.locator("#output img, #output a").count() == 0
    expect(tab.page).to_have_title("Text – Babelgate")


def test_nothing_moves_when_answers_come_in_another_order(tab):
    hold_answers(tab)
    tab.page.evaluate(
        """() => {
          window.moved = 0;
          new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) window.moved += entry.value;
          }).observe({ type: "layout-shift", buffered: true });
        }"""
    )
    tab.find("source").select_option("en")
    lines = ["This is late.", *[SENTENCE] * 60]
    tab.type("\n".join(lines))
    tab.page.wait_for_function("() => window.late.length === 1 && window.answered > 0")
    expect(tab.find("output")).to_have_text("…", use_inner_text=True)
    tab.page.evaluate("window.late[0]()")
    tab.wait_for_output("\n".join(f"fr:{line}" for line in lines))
    lines[0] = "This is even late."  # an edited part keeps its place
    tab.type("\n".join(lines))
    tab.page.wait_for_function("() => window.late.length === 2")
    expect(tab.find("output")).to_contain_text("fr:This is late.")
    tab.page.evaluate("window.late[1]()")
    tab.wait_for_output("\n".join(f"fr:{line}" for line in lines))
    assert tab.page.evaluate("window.moved") == 0


def test_the_form_alone_translates_a_text(make_tab, stage):
    plain = make_tab(stage.url, java_script_enabled=False)
    for part in ("nav", "#swap-button", "#code", "#history", "#theme-button"):
        expect(plain.page.locator(part)).to_be_hidden()
    plain.type(SENTENCE)
    plain.find("target").select_option("ar")
    plain.page.get_by_role("button", name="Translate", exact=True).click()
    expect(plain.find("output")).to_have_text(f"ar:{SENTENCE}")
    expect(plain.find("output")).to_have_attribute("dir", "rtl")
    expect(plain.find("output")).to_have_attribute("lang", "ar")
    expect(plain.find("given")).to_have_value(SENTENCE)
    expect(plain.find("target")).to_have_value("ar")
    plain.find("target").select_option("de")
    plain.page.get_by_role("button", name="Translate with a link to keep").click()
    assert "q=Where+is+the+station" in plain.page.url
    expect(plain.find("output")).to_have_text(f"de:{SENTENCE}")
