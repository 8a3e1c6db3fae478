"""Four times as much text takes about four times as much CPU time, even if it is hostile."""

import gc
import re
import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.markup import scan
from documents.formats import html
from documents.formats.csv import _INNER
from documents.formats.format import is_prose
from documents.formats.markdown import find_edits
from documents.formats.subtitles import _SPEAKER
from gateway.api.libretranslate import _MARKUP
from gateway.http.message import read_message
from handlers.engine.translation.guard import find_fault
from handlers.engine.vision.decoding import _check_scans
from tests.hostile import SHAPES, TextShape
from tests.text.test_document import read as read_text
from text import messages
from text.document import HTML, PLAIN, Segment, divide, find_kept, take_apart
from text.langid import Identifier
from text.options import HTML_TAGS, Tags
from text.orthography import mend, to_capitals
from text.placeholders import find_protected, restore
from text.segmentation import _LINES
from text.terms import Terms, find_terms
from text.variants import convert

pytestmark = pytest.mark.slow

SIZE, TIMES = 8 << 10, 4
#: Linear work stays below this; quadratic work reaches TIMES * TIMES.
MOST = 2.2 * TIMES
#: Shorter CPU times are noise.
NOISE_S = 0.03


def measure(work: Callable[[], object]) -> float:
    """Return the CPU seconds of `work`, without garbage collection: a full collection scans
    the objects of earlier tests, and takes several times as long as `work`."""
    gc.disable()
    before = time.process_time()
    try:
        work()
        return time.process_time() - before
    finally:
        gc.enable()


def assert_linear(work: Callable[[int], object]) -> None:
    """Compare the cost of `work` at two sizes, with two retries in case the machine is busy."""
    ratios = []
    for _ in range(3):
        small, large = (measure(partial(work, n * SIZE)) for n in (1, TIMES))
        ratios.append(large / max(small, NOISE_S / TIMES))
        if ratios[-1] <= MOST:
            return
    raise AssertionError(f"{TIMES} times the text cost {ratios} times the CPU")


XML_TAGS = Tags(is_xml=True, ignored=("a",), inline=("b",))


def read(
    shape: TextShape, size: int, source: str = "en", tags: Tags | None = None
) -> None:
    tags = tags or (HTML_TAGS if shape.format == "html" else None)
    document = read_text(shape.write(size), source, "en", tags=tags)
    document.render(segment.text for segment in document.segments)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_reading_a_hostile_text_costs_what_it_is_long(shape):
    assert_linear(lambda size: read(shape, size))


@pytest.mark.faults
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_reading_it_in_xml_or_chinese_costs_no_more(shape):
    """Plain texts are not repeated as XML: sentences in elements are read like any others."""
    given = {"tags": XML_TAGS} if shape.format == "html" else {"source": "zh"}
    assert_linear(lambda size: read(shape, size, **given))


#: Any characters, those of markup, and those of placeholders.
ALPHABETS = (
    st.characters(codec="utf-8"),
    "<>/!-?[]=\"'&#; ab",
    "{=}%$()`:@./-+1a0, \n\\N#*>“”。",
)


@pytest.mark.faults
@pytest.mark.parametrize("alphabet", ALPHABETS, ids=["any", "markup", "protected"])
@given(st.data(), st.sampled_from([None, HTML_TAGS, XML_TAGS]))
def test_reading_what_is_repeated_costs_what_it_is_long(alphabet, data, tags):
    unit = data.draw(st.text(alphabet, min_size=1, max_size=6))
    assert_linear(lambda size: read(TextShape("drawn", unit), size, tags=tags))


@pytest.mark.parametrize("unit", ["a", "a@", "a://", "1 ", "你"])
def test_identification_looks_at_a_part_of_a_text(unit):
    """Identification costs the same at four times the size."""
    identifier = Identifier(["en", "fr", "zh"])
    assert_linear(lambda size: [identifier.rank(unit * size) for _ in range(20)])


def test_a_sentence_with_placeholders_is_cut_in_linear_time():
    def cut(size: int) -> None:
        text = "a{b} " * (size // 5)
        segment = Segment(text, 0, tuple(find_protected(text)))
        divide(segment, 50, PLAIN)
        take_apart(segment, PLAIN)

    assert_linear(cut)


def mend_both_ways(text: str) -> None:
    for target in ("es", "ja"):
        mend("A text!", text, "en", target)
        mend(text, "A text", "en", target)


def judge_both_ways(text: str) -> None:
    text = text[: len(text) // 4]
    find_fault("A text", text, "en", "fr")
    find_fault(text, re.sub("a", "b", text), "en", "fr")
    find_fault(text, text, "en", "fr")


def read_messages(text: str) -> None:
    messages.read_message(text)
    document = read_text(f"{{n, plural, other {{{text}}}}}", "en", "ar")
    document.render(segment.text for segment in document.segments)


PROTECTED = find_protected("Hi {name}")
MARKDOWN = [
    "!!! a\n", '" ', "    \n", "{% ", ":::a b ", "import 'a' ", "<code>", ": a\n",
    "+++\n", "{% highlight ", "> [!a", "[[a]]", "[[a|", "(a", "import a from ",
]  # fmt: skip
WORKS: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "restored": (
        lambda text: restore(text, PROTECTED, HTML.write),
        ["{0} ", "{", "{1", "{" + "1" * 5000 + "}"],
    ),
    "what is preserved": (
        find_protected,
        ["{\\a", "\\n", "%a", "<@", "<:a", "http://[]("],
    ),
    "lines": (_LINES.findall, ["\\n", "\\n ", "\\N.", "\\", "\t"]),
    "HTML or plain": (_MARKUP.search, ["&", "&a", "&#", "<"]),
    "mended": (mend_both_ways, ["!", "¿", "“", "a? ", "か。", ". "]),
    "capitals of Greek": (lambda text: to_capitals(text, "el"), ["άι η\u0301 "]),
    "capitals of Turkish": (lambda text: to_capitals(text, "tr"), ["i\u0301 "]),
    "written in Cyrillic": (
        lambda text: convert(text, "sr-Cyrl"),
        ["a", "nj", "Ab ", "X", "in", "x a"],
    ),
    "written in Latin": (lambda text: convert(text, "sr-Latn"), ["Љ", "љ", "Љљ "]),
    "messages": (
        read_messages,
        ["{a, plural, other {", "{a,select,b{c}}", "'{a}' ", "'", "}", "{a, time, "],
    ),
    "declarations": (
        lambda text: [*scan(f"<!DOCTYPE a [{text}", is_xml=True)],
        ["<!--", "<?a", "'", '"', "]", "<", "<!a>", "<!-- -->"],
    ),
    "Markdown": (
        lambda text: [*find_edits(text), *find_edits(f'!!! a "{text}')],
        MARKDOWN,
    ),
    "pages": (lambda text: [*html.find_edits(48 * text)], ["<?a>"]),
    "speakers of subtitles": (_SPEAKER.match, ["<i>", "{b}", "<", "{", "A", "<v "]),
    "quotes": (partial(re.search, _INNER.format(",")), ["\\", '\\"', '"', ',"\\a']),
    "values of JSON": (is_prose, ["<a>", "<a>b</a>", "<", "a", "{", "{a} "]),
    # `decode` would also measure Pillow.
    "scans of JPEG": (
        lambda text: _check_scans(text.encode("latin-1")),
        [
            "\xff",
            "\xff\0",
            "\xff\2",
            "\xff\xfe\0\0",
            "\xff\xfe",
            "\xff\xda\xff\xff",
            "a",
        ],
    ),
    "judged": (judge_both_ways, ["a", "ab ", "a1", "你", "word. ", "{", "1-"]),
}


@pytest.mark.parametrize(("work", "units"), WORKS.values(), ids=WORKS)
def test_work_on_a_translation_costs_what_it_is_long(work, units):
    def repeat(unit: str, size: int) -> None:
        work(unit * (size // len(unit)))

    for unit in units:
        assert_linear(partial(repeat, unit))


def test_each_arm_of_a_message_costs_the_same():
    arms = "{n, plural, other {#}}"
    assert_linear(lambda size: read_text(arms * (size // 2), "en", "xx"))


def test_a_translation_that_repeats_a_long_stretch_is_judged_in_linear_time():
    def judge(size: int) -> None:
        half = "".join(map(chr, range(0x4E00, 0x4E00 + size // 4)))
        find_fault(half, 3 * half[:-1], "en", "zh")

    assert_linear(judge)


#: Glossaries and texts that would make a simple search from the front backtrack.
NESTED = [("a " * number + "a", "x") for number in range(200)]
TERMS = {
    "a beginning that leads nowhere": ([("a " * 500 + "b", "x")], "a "),
    "terms inside of terms": ([*NESTED, ("a " * 400 + "b", "x")], "a "),
    "letters without spaces": ([("中" * 300 + "文", "x"), ("中" * 7, "y")], "中"),
    "Korean syllables": ([("가" * 300 + "나", "x"), ("가", "y")], "가"),
    "accents": ([("a\u0323\u0301", "x")], "\u0301\u0323"),
    "apostrophes": ([("a'b", "x")], "n't'"),
    "numbers": ([("1.1", "x")], "1."),
    "every word": ([("a", "x")], "A, "),
}


@pytest.mark.parametrize(("entries", "text"), TERMS.values(), ids=TERMS)
def test_looking_for_terms_costs_what_a_text_is_long(entries, text):
    terms = Terms(entries, "en", "de")
    assert_linear(lambda size: find_kept(text * (size // len(text)), True, [terms]))


#: Functions from a number to a term; terms of the second differ only in their capitals.
NUMBERED: dict[str, Callable[[int], str]] = {
    "words": lambda number: f"word {number} more",
    "capitals": lambda number: f"{number:016b}".replace("1", "a").replace("0", "A"),
}


@pytest.mark.parametrize("write", NUMBERED.values(), ids=NUMBERED)
def test_making_terms_costs_what_a_glossary_is_long(write):
    def make(size: int) -> None:
        terms = Terms(((write(n), "x") for n in range(size // 4)), "en", "de")
        assert find_terms(write(size // 4 - 1), [terms])

    assert_linear(make)


@pytest.mark.parametrize("unit", [b"a", b"a:", b"a: ", b"a:b\r\n", b"a:b\r"])
def test_a_hostile_head_of_a_request_costs_what_it_is_long(unit):
    assert_linear(lambda size: read_message(b"POST / HTTP/1.1\r\n" + unit * size))
