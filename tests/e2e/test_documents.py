"""Documents, placeholders, markup and unnamed languages on the real stack: nothing is lost."""

import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, pairwise
from typing import Any

import pytest

from models.phrasebook_recipe import phrasebook
from models.phrasebook_recipe.corpus import Corpus, TextPair
from models.phrasebook_recipe.items import LANGUAGES
from tests.e2e.test_translation import ask

#: Parts that must survive, one of each kind and some that are easily mistaken.
KEPT = (
    "https://example.org/a?b=1&c=%20d#e", "www.example.org",
    "ann.lee+x@example.co.uk", "{{ user.name }}", "{count}", "{0}", "${total}",
    "%s", "%1$s", "%(name)s", ":smile:", "`make up`", "5 km", "3.5GB", "20 °C",
    "👩‍👩‍👧", "🇩🇪",
    "ACME-42", "v2.10.3", "2.10.3", "ISO-9001", "A4", "RTX4090",
)  # fmt: skip
#: The order of the languages, in which each gets a different target.
ORDER = "en de fr es it pt id vi ru ar hi zh ja ko".split()
MARKUP = (
    "<p>{}</p>",
    "<b>{}</b>",
    "<p><i>{}</i> <code>f(x)</code></p>",
    '<a href="https://a.b/?x=1&amp;y=2" title="a > b">{}</a>',
    "<ul><li>{}<li>{}</ul>",
    '<p>{} <span translate="no">Foo <b>Bar</b></span></p>',
    "<pre>keep  {{this}}</pre><p>{}</p><!-- and this -->",
)
#: A tag with its attributes.
TAG = re.compile(r'<(?:"[^"]*"|[^">])+>')


def find_frames(wording: str) -> dict[str, str]:
    """Return a sentence of the phrasebook in each language, with `{}` for its slot."""
    (phrase,) = (p for p in phrasebook.load() if p.wordings["en"][0] == wording)
    return {
        language: re.sub(r"{\w+}", "{}", phrase.wordings[language][0])
        for language in ORDER
    }


FRAMES = find_frames("My name is {name}.")


def test_what_must_survive_survives_in_every_language(url: str):
    lost, count = [], 0
    wanted = [*((kept,) for kept in KEPT), *pairwise(KEPT)]
    for i, (source, frame) in enumerate(FRAMES.items()):
        target = LANGUAGES[(i + 5) % len(LANGUAGES)]
        texts = [frame.format(" ".join(kept)) for kept in wanted]
        answers = ask(url, texts, target, src_lang=source)["translated"]
        for text, answer, kept in zip(texts, answers, wanted, strict=True):
            count += 1
            if any(answer.count(k) != text.count(k) for k in kept):
                lost.append((text, answer))
    assert count >= 300
    assert lost == []


@pytest.mark.parametrize("markup", MARKUP)
def test_markup_survives_in_every_language(url: str, markup: str):
    for source, frame in FRAMES.items():
        target = "en" if source != "en" else "ko"
        inner = frame.format("<b>Anna</b>")
        html = markup.replace("{{", "\0").replace("{}", inner).replace("\0", "{")
        answer = ask(url, html, target, src_lang=source, format="html")["translated"]
        assert TAG.findall(answer) == TAG.findall(html)
        for kept in re.findall(r"<(?:pre|code|!--).*?(?:</|-->)", html):
            assert kept in answer


def test_held_out_items_are_translated_alike_alone_in_lists_and_in_documents(url: str):
    held_out = Corpus(phrasebook.load()).held_out(250)
    pairs = [pair for pair in held_out if "\n" not in pair.source]

    def ask_alone(pair: TextPair) -> Any:
        options = {"src_lang": pair.source_language}
        return ask(url, pair.source, pair.target_language, **options)["translated"]

    directions = defaultdict(list)
    with ThreadPoolExecutor(32) as pool:
        for pair, answer in zip(pairs, pool.map(ask_alone, pairs), strict=True):
            directions[pair.source_language, pair.target_language].append(
                (pair, answer)
            )
        differing = list(pool.map(partial(compare, url), directions.values()))
    assert list(chain.from_iterable(differing)) == []


def compare(url: str, known: list[tuple[TextPair, str]]) -> list[str]:
    """List the items that are translated differently in a list or in a document's lines."""
    first = known[0][0]
    texts = [pair.source for pair, _ in known]
    options = {"src_lang": first.source_language}
    listed = ask(url, texts, first.target_language, **options)["translated"]
    text = "\n".join(f"  - {text}" for text in texts)
    document = ask(url, text, first.target_language, **options)["translated"]
    lines = [line.removeprefix("  - ") for line in document.split("\n")]
    return [
        f"{pair.source}: {answer} / {as_item} / {as_line}"
        for (pair, answer), as_item, as_line in zip(known, listed, lines, strict=True)
        if not answer == as_item == as_line
    ]
