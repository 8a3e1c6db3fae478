"""ICU messages are read as FormatJS reads them, translated, and written again."""

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.text.cases import list_rows
from tests.text.test_document import read
from text.composition import translate_batch
from text.document import divide, take_apart
from text.errors import SentenceRefused
from text.langid import Identifier
from text.messages import IcuMessage, Quoting, list_categories, read_message, strip
from text.options import HTML_TAGS, XML_TAGS, TranslationRequest
from text.placeholders import fill

#: Messages as FormatJS parses them, recorded by `tests/e2e/foreign/messages.mjs`. A test in
#: `tests/e2e/test_foreign_clients.py` compares them with FormatJS again.
RECORDED = json.loads(Path(__file__).with_name("messages.json").read_text("utf-8"))
#: Syntax of other libraries that FormatJS refuses.
ONLY_OURS = """
    {user.name,|{$count,|{{{n}}|in-progress|spellout|ordinal,|choice,|duration}
""".strip().split("|")
IDENTIFIER = Identifier(["en", "de", "fr"])


def describe(source: str, message: IcuMessage) -> list[Any]:
    """Convert a message to the form of the recorded answers."""
    found: list[Any] = []
    end = message.start
    for place in message.places:
        add(found, source[end : place.start])
        raw, end = source[place.start : place.end], place.end
        if raw == "#":
            found.append(["#"])
        elif raw == "''":
            add(found, "'")
        elif raw[0] == "'":
            add(found, raw[1:].removesuffix("'").replace("''", "'"))
        elif raw == "}":
            add(found, raw)
        elif not place.arms:
            found.append([raw[1:-1].split(",")[0].strip()])
        else:
            name, _, rest = raw[1:-1].split(",", 2)
            _, _, offset = rest[: rest.index("{")].partition("offset:")
            arms = {arm.key: describe(source, arm.text) for arm in place.arms}
            number = int(offset.split("=")[0].split()[0]) if offset else 0
            found.append([name.strip(), place.kind, number, arms])
    add(found, source[end : message.end])
    return found


def add(found: list[Any], text: str) -> None:
    if text and found and isinstance(found[-1], str):
        found[-1] += text
    elif text:
        found.append(text)


def by_selector(answer: list[Any]) -> list[Any]:
    """Return a recorded answer without the order of arms, which JavaScript may change."""
    return [
        [*item[:3], {key: by_selector(text) for key, text in item[3]}]
        if isinstance(item, list) and len(item) > 3
        else item
        for item in answer
    ]


@pytest.mark.parametrize(("source", "answer"), RECORDED)
def test_a_message_is_read_as_by_formatjs(source, answer):
    message = read_message(source)
    if answer is None:
        is_ours = any(sign in source for sign in ONLY_OURS) and source[-1] != "{"
        assert (message is not None) == is_ours
    else:
        assert message is not None
        assert describe(source, message) == by_selector(answer)


def ask_for(change: Callable[[str], str], most: int) -> Callable[..., Any]:
    """Return a model that translates with `change`, and refuses more than `most` characters."""
    refused = SentenceRefused("too long", {"tokens": 100, "limit": 50})

    def answer(text: str) -> Any:
        return {"translated": change(text)} if len(text) <= most else refused

    return lambda rows: [answer(row["src_text"]) for row in rows]


def translate(
    text: str, target: str = "de", change: Callable[[str], str] = str.upper, **more: Any
) -> str:
    ask = ask_for(change, more.pop("most", 10_000))
    request = TranslationRequest("en", target, (), is_list=True, **more)
    (answer,) = translate_batch([text], request, IDENTIFIER, ask)
    assert not isinstance(answer, Exception)
    return answer.renderings[0].text


@pytest.mark.parametrize("source", [source for source, _ in RECORDED])
def test_a_message_without_translation_is_itself(source):
    """It stays the same in one piece, and in several if the model loses its placeholders."""
    assert fold(translate(source, "xx", str)) == fold(source)
    if read_message(source):
        new = translate(source, "xx", lambda text: text.replace("{", "("))
        assert fold(new) == fold(source)


def fold(source: str, is_html: bool = False) -> str:
    """Return a text with its signs unescaped, and in HTML with single spaces."""
    text = html.unescape(source).replace("''", "'")
    return " ".join(text.split()) if is_html else text


PARTS = [
    "{n, plural, one {",
    "} other {",
    "}}",
    "''",
    "'",
    "l'{x}",
    "Two. Three.",
    "\n",
]
SOURCES = [source for source, answer in RECORDED if answer] + PARTS


@given(st.lists(st.sampled_from(SOURCES), max_size=4).map("".join), st.booleans())
@example("{n, plural, one {a\tb} other {c\td}}", True)
def test_reading_and_writing_is_the_identity(source, is_html):
    document = read(source, tags=HTML_TAGS if is_html else None)

    def write(part: Any, form: Any) -> str:
        own, kept = part.adapt(form), part.placeholders
        return fill(part.text, kept, [p.shown for p in kept], own.write)

    written = [write(segment, document.format) for segment in document.segments]
    apart = [take_apart(segment, document.format) for segment in document.segments]
    cut = [divide(segment, 3, document.format) for segment in document.segments]
    assert fold(document.render(written), is_html) == fold(source, is_html)
    for parts in (apart, cut):
        pieces = (
            [write(each, part.format) for each in part.segments] for part in parts
        )
        new = map(lambda part, texts: part.render(texts), parts, pieces)
        assert fold(document.render(new), is_html) == fold(source, is_html)


@pytest.mark.parametrize(
    ("source", "target", "expected"), list_rows("arms of messages")
)
def test_arms_are_translated_and_get_the_forms_of_the_language(
    source, target, expected
):
    assert translate(source, target) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("The {n, plural, other {the {x}}}", "L''{n, plural, other {l''{x}}}"),
        ("It''s {n, plural, other {the dog}}", "It''s {n, plural, other {l''dog}}"),
        ("It {n, plural, other {the dog}}", "It {n, plural, other {l'dog}}"),
        ("{n, plural, other {the}}", "{n, plural, other {l''}}"),
    ],
)
def test_an_apostrophe_of_the_translation_quotes_nothing(source, expected):
    def change(text: str) -> str:
        return text.replace("The ", "L'").replace("the ", "l'").replace("the", "l'")

    assert translate(source, "xx", change) == expected


def test_a_sign_of_the_translation_is_no_number():
    assert Quoting(False, True).quote("# 'a' '") == "'#' 'a' ''"
    assert Quoting(True, False).quote("# 'a'") == "# ''a''"
    assert Quoting(False, True).quote("C#'s {0}") == "C'#'''s '{'0'}'"
    assert translate("{n, plural, other {a #}}", "xx", lambda text: f"{text} #1") == (
        "{n, plural, other {a # '#'1}}"
    )


def test_what_is_kept_in_a_text_is_quoted_as_before():
    source = "<a href=''x''>A</a> B {n, number}"
    assert translate(source) == source


def test_a_text_in_pieces_keeps_its_message():
    source = "Here you have {n, plural, one {the file {x}} other {# files}} in {y}."
    for tags in (None, HTML_TAGS):
        assert translate(source, "de", str, most=8, tags=tags) == source


def test_tags_are_inside_of_texts():
    source = "{n, plural, one {<b>a</b> file} other {# <x id='1'/> <i>more</i>}}"
    expected = "{n, plural, one {<b>A</b> FILE} other {# <x id='1'/> <i>MORE</i>}}"
    assert translate(source, tags=XML_TAGS) == expected
    page = "<p>Two{n, plural, one {a<br>b} other {<p>c</p>}}</p><p>{n, plural,</p>"
    expected = "<p>TWO{n, plural, one {A<br>B} other {<p>C</p>}}</p><p>{N, PLURAL,</p>"
    assert translate(page, tags=HTML_TAGS) == expected
    broken = "{n, <b>plural</b>, other {a}}"
    assert translate(broken, tags=XML_TAGS) == "{N, <b>PLURAL</b>, OTHER {a}}"


def test_segments_say_where_they_are_and_are_counted_once():
    source = "It''s {n, plural, one {a dog} other {{x} dogs}}. And {y} {y} cats."
    document = read(source, target="ar")
    texts = [segment.prepared for segment in document.segments]
    assert texts == ["It's {0}.", "And {0} {1} cats.", "a dog", "{0} dogs"]
    starts = [source.index(word) for word in ("It", "And", "a dog", "{x} dogs")]
    assert [s.start for s in document.segments] == starts
    first, _ = read(source, is_protected=False).segments
    assert first.prepared == source[: source.index(" And")]


def test_a_plural_deep_in_plurals_gets_no_arms():
    source = "x"
    for name in "abcdefgh":
        source = f"{{{name}, plural, other {{{source}}}}}"
    new = translate(source, "ar")
    assert new.count("{a, plural, other {X}}") == 36
    assert new.count("few {{") == 7
    assert read_message(f"{{i, plural, other {{{source}}}}}") is None


def test_the_language_of_a_message_is_that_of_its_texts():
    text = "{count, plural, one {Guten Morgen} other {Vielen Dank für alles}}"
    assert strip(text).split() == "Guten Morgen Vielen Dank für alles".split()
    assert IDENTIFIER.identify(strip(text)).language == "de"
    assert list_categories("zh-Hant", "plural") == list_categories("xx", "plural") == []
    assert list_categories("ar", "plural") == ["zero", "one", "two", "few", "many"]
