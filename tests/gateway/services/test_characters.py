"""Keys are billed for the characters that the model gets and for blanks, not for markup."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.services.test_translation import Model, translate
from text.markup_runs import Run, parse_markup
from text.options import HTML_TAGS, XML_TAGS, Tags

#: Texts that look like markup, real markup, and kept parts. `W` is a word.
TEXTS = [
    "W", " ", "\n", "<,W", "<-W", "<(W>", '<"W', "<é W", "<_W>", "<W", "W>", "< W",
    "<=W>", "&amp;W", "&#233;W", "W & W",
]  # fmt: skip
MARKUP = [
    "<p>", "</p>", "<b>", "</b>", "<i class='a>b'>", "</i>", "<br>", "<br/>",
    "<!-- W -->", "<!W>", "<?W?>", "</ W>", "<![CDATA[W]]>", "<x>", "</x>",
    "<code>", "</code>", "<p translate=no>", "<script>W</script>", "<éW>", "<_>",
]  # fmt: skip
PIECES = st.lists(st.sampled_from(TEXTS + MARKUP), max_size=30)


def write(pieces: list[str]) -> str:
    """Join pieces into a text of distinct words, so that no two sentences share a row."""
    words = (f"w{'abcdefghij'[n // 10]}{'abcdefghij'[n % 10]}" for n in range(100))
    return re.sub("W", lambda _: next(words), "".join(pieces))


@pytest.mark.parametrize(
    "tags",
    [
        HTML_TAGS,
        XML_TAGS,
        Tags(ignored=("b",)),
        Tags(is_xml=True, ignored=("b",)),
        None,
    ],
    ids=["HTML", "XML", "HTML without b", "XML without b", "plain"],
)
@given(PIECES)
def test_the_characters_that_the_model_gets_are_billed_and_blanks(tags, pieces):
    text, model = write(pieces), Model()
    (answered,) = translate(
        model, text, tags=tags, splitting="sentences", is_protected=False
    )
    sent = "".join(re.sub(r"\{\d+\}", "", row["src_text"]) for row in model.rows)
    runs = parse_markup(text, tags) if tags else [Run(text)]
    read = "".join(run.text for run in runs if not run.is_markup)
    assert answered.characters == len(read)
    letters = [sorted(re.sub(r"[\W_]", "", each)) for each in (sent, read)]
    assert letters[0] == letters[1]


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("Hello", 5),
        ("<p>Hello <b class='x'>you</b></p>", 9),
        ("a < b &amp; c", 9),
        ("<,Where is it?>", 15),
        ("<!Where is it?>", 0),
        ("<p> </p>", 1),
    ],
)
def test_texts_are_counted_and_markup_is_not(text, characters):
    for source in ("en", "ko"):  # an untranslated text counts too
        (found,) = translate(Model(), text, tags=HTML_TAGS, source=source)
        assert found.characters == characters
