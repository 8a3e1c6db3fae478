"""Texts through the translation service, with models that copy, change or lose them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import catalog
from contract.problems import write_problem
from contract.tasks import TRANSLATION
from gateway.admission.control import Admission
from gateway.cache.sentences import SentenceCache
from gateway.errors import (
    ClientGone,
    DeadlineExceeded,
    Overloaded,
    RowProblem,
    TooManyRows,
)
from gateway.glossaries.library import Glossaries
from gateway.http.request import Call
from gateway.metrics import Telemetry
from gateway.services.readers import Readers
from gateway.services.translation import TranslationService
from gateway.settings import Settings
from tests.gateway.conftest import StatelessBackend, make_call, make_gone, make_model
from text.composition import TranslatedText, translate_batch
from text.langid import Identifier
from text.options import TranslationRequest

MODELS = catalog.Catalog(
    {(TRANSLATION, target): make_model(target) for target in ("ko", "de", "zh")}
)
#: The qualities of some answers.
DOUBTED = {"Two.": 0.4, "Go {0} or {1}": 0.7, "and": 0.6}
LANGUAGES = "ko en zh es fr ru id ja vi de it hi ar pt".split()


@dataclass
class Model(StatelessBackend):
    """A backend whose model applies a function, and accepts a limited number of characters."""

    answer: Callable[[str], str] = str
    limit: int = 1 << 30
    others: Sequence[str] = ("{text}1", "{text}2")
    rows: list[Mapping[str, Any]] = field(default_factory=list)

    def predict(self, model, row, *, deadline) -> dict[str, Any]:
        item = json.loads(row.body)
        self.rows.append(item)
        text = item["src_text"]
        if len(text) > self.limit:
            counts = {"tokens": len(text), "limit": self.limit}
            problem = write_problem("text-too-long", 422, "too long", **counts)
            raise RowProblem(problem)
        others = [
            {"text": other.replace("{text}", text), "score": -number}
            for number, other in enumerate(self.others[: item["alternatives"]], 1)
        ]
        return {
            "translated": self.answer(text),
            "score": -0.5,
            "quality": DOUBTED.get(text, 0.9),
            "alternatives": others,
        }


def translate(
    model: Model,
    *texts: str,
    call: Call | None = None,
    max_rows: int = 10_000,
    **options: Any,
) -> list[Any]:
    asked: dict[str, Any] = {"source": "en", "target": "ko"} | options
    wanted = TranslationRequest(texts=texts, is_list=len(texts) > 1, **asked)
    settings = Settings.model_validate(
        {"sentences_at_once": 4, "max_rows": max_rows, "database_url": "sqlite://"}
    )
    telemetry = Telemetry()
    service = TranslationService(
        MODELS,
        Admission(model, MODELS.models),
        SentenceCache(model, MODELS.models, settings, telemetry),
        Identifier(LANGUAGES),
        telemetry,
        Readers(),
        settings,
        LANGUAGES,
        Glossaries(settings),
    )
    return service.translate(wanted, call or make_call())


def forget(text: str) -> str:
    """Translate as a model that loses every mask."""
    return re.sub(r"\{\d+\}", "", text)


@given(st.text(), st.booleans(), st.integers(40, 60))
def test_with_a_model_that_copies_any_text_comes_back_byte_for_byte(
    text, protect, limit
):
    text *= 1 + 100 // (len(text) + 1)
    (found,) = translate(Model(limit=limit), text, is_protected=protect)
    assert found.renderings[0].text == text


@given(
    st.lists(st.sampled_from(["Hi {name}. ", "😀", "\n", "a, b ", "<", "https://a.b"]))
)
def test_a_model_that_loses_every_mask_loses_nothing(parts):
    text = "".join(parts)
    (found,) = translate(Model(forget), text)
    assert found.renderings[0].text == text


def test_every_sentence_is_a_row_and_separators_stay():
    model = Model(str.upper)
    (found,) = translate(model, "# Title\n\n- One. Two.\n  3) {name}\n")
    assert found.renderings[0].text == "# TITLE\n\n- ONE. TWO.\n  3) {name}\n"
    assert {row["src_text"] for row in model.rows} == {"Title", "One.", "Two."}


@pytest.mark.parametrize(
    ("text", "rows", "expected"),
    [
        ("HELLO, I AM {name}!", ["Hello, I am {0}!"], "HALLO, I AM {name}!"),
        ("STOP! Hello.", ["STOP!", "Hello."], "STOP! Hallo."),
    ],
)
def test_a_text_in_capitals_is_translated_in_sentence_case(text, rows, expected):
    model = Model(lambda text: text.replace("ello", "allo"))
    (found,) = translate(model, text, target="de")
    assert [row["src_text"] for row in model.rows] == rows
    assert found.renderings[0].text == expected


def test_parts_of_a_sentence_in_capitals_are_in_capitals():
    model = Model(lambda text: forget(text).replace("ello", "allo"))
    (found,) = translate(model, "HELLO {a} AND {b} HELLO", target="de")
    assert found.renderings[0].text == "HALLO {a} AND {b} HALLO"
    (found,) = translate(Model(limit=12), "HELLO THERE, OH MY DEAR", target="de")
    assert found.renderings[0].text == "HELLO THERE, OH MY DEAR"


def test_a_translation_ends_as_its_text_does_and_so_do_the_alternatives():
    model = Model(lambda text: text.rstrip("!") + ".")
    (found,) = translate(model, "Go {x}! Stop", target="de", alternatives=1)
    texts = [rendering.text for rendering in found.renderings]
    assert texts == ["Go {x}! Stop", "Go {x}!1! Stop1"]


def test_alternatives_that_differ_in_their_final_mark_only_are_one():
    model = Model(lambda text: "Go.", others=("Go!", "Go now.", "Go", "Went."))
    (found,) = translate(model, "Los", source="de", target="zh", alternatives=4)
    assert [r.text for r in found.renderings] == ["Go", "Go now", "Went"]


def test_a_sentence_that_is_too_long_is_divided_and_says_where():
    text = "Short one. " + "word " * 20 + "end."
    (found,) = translate(Model(limit=30), text)
    assert found.renderings[0].text == text
    (warning,) = found.warnings
    assert warning.startswith("characters 11-")
    assert "more: cut from a sentence that is longer" in warning


def test_options_reach_the_model_and_alternatives_have_their_scores():
    model = Model()
    (found,) = translate(model, "One. Two.", beam_size=4, alternatives=2)
    assert all((row["beam_size"], row["alternatives"]) == (4, 2) for row in model.rows)
    texts = ["One. Two.", "One.1. Two.1.", "One.2. Two.2."]
    assert [r.text for r in found.renderings] == texts
    assert [r.score for r in found.renderings] == [-0.5, -1, -2]


@pytest.mark.parametrize(
    ("text", "quality", "sentences"),
    [
        ("One.", 0.9, [("ONE.", 0.9)]),
        (" One.\n", 0.9, [("ONE.", 0.9)]),
        ("One. Two.\n- Three.", 0.4, [("ONE.", 0.9), ("TWO.", 0.4), ("THREE.", 0.9)]),
        ("One. 2", 0.9, [("ONE.", 0.9)]),
        ("2", 1.0, []),
        ("\n", 1.0, []),
    ],
)
def test_a_text_is_as_sure_as_its_least_sure_sentence(text, quality, sentences):
    (found,) = translate(Model(str.upper), text)
    assert found.quality == quality
    assert [(s.renderings[0].text, s.quality) for s in found.sentences] == sentences


def test_a_sentence_in_pieces_is_as_sure_as_they_are_and_as_the_whole():
    for word, quality in (("and", 0.6), ("or", 0.7), ("on", 0.9)):
        (found,) = translate(Model(forget), f"Go {{a}} {word} {{b}}")
        assert (found.quality, len(found.sentences)) == (quality, 1)


def test_a_text_that_is_not_sure_enough_comes_back_as_it_is():
    texts = ("One. {x}", "One. Two. {x}", "", "12")
    found = translate(Model(str.upper), *texts, min_quality=0.5, alternatives=1)
    said = [[rendering.text for rendering in each.renderings] for each in found]
    assert said == [["ONE. {x}", "One.1. {x}"], ["One. Two. {x}"], [""], ["12"]]
    warning = "its translation's quality is 0.4, below min_quality 0.5: this is the text itself"
    assert [each.warnings for each in found] == [(), (warning,), (), ()]
    exact, *_ = translate(Model(str.upper), "Two.", min_quality=0.4)
    assert (exact.renderings[0].text, exact.warnings) == ("TWO.", ())


def test_a_text_in_no_language_is_not_sure_and_one_in_the_targets_is():
    texts = ("Qxz", "我们在哪里可以找到车站？", "12")
    found = translate(Model(), *texts, source=None, target="zh")
    assert [each.quality for each in found] == [0.0, 1.0, 1.0]


def test_what_a_request_is_divided_into_is_bounded():
    text = "One {a} two {b} three. " * 3
    assert translate(Model(forget), text, max_rows=9)[0].renderings[0].text == text
    with pytest.raises(TooManyRows):
        translate(Model(forget), text, max_rows=8)


def test_a_sentence_with_more_placeholders_than_a_model_keeps_is_taken_apart_at_once():
    model = Model()
    (found,) = translate(model, "word {a} " * 101)
    assert found.renderings[0].text == "word {a} " * 101
    assert {row["src_text"] for row in model.rows} == {"word"}


@pytest.mark.parametrize(
    ("source", "call", "problem"),
    [
        ("en", lambda: make_call(-1), Overloaded),
        (None, lambda: make_call(-1), DeadlineExceeded),
        ("en", make_gone, ClientGone),
        (None, make_gone, ClientGone),
    ],
)
def test_texts_are_read_in_time_and_for_somebody(source, call, problem):
    model = Model()
    with pytest.raises(problem):
        translate(model, "One. Two. Three.", "Hi", source=source, call=call())
    assert model.rows == []


@pytest.mark.parametrize(
    ("source", "target", "text", "rows", "expected"),
    [
        ("en", "zh-Hant", "Hi {软件}", ["Hi {0}"], "軟體 {软件}"),
        ("en", "zh-HK", "OH, HI", ["Oh, hi"], "Oh, 軟件"),
        ("zh-Hant", "ko", "軟體{軟體}。", ["软体{0}。"], "软体{軟體}+。"),
        ("zh", "ko", "謝謝", ["谢谢"], "谢谢+"),
        (None, "ko", "我們在哪裡見？", ["我们在哪里见？"], "我们在哪里见+？"),
        ("zh", "zh-Hant", "软件{软件} https://a.b/软", [], "軟體{软件} https://a.b/软"),
        ("zh-Hant", "zh", "軟體。\n\n軟體", [], "软体。\n\n软体"),
        ("zh-HK", "zh-Hant", "軟件", [], "軟體"),
        ("zh", "zh", "軟體", [], "軟體"),
        (None, "zh", "我們在哪裡可以找到車站？", [], "我们在哪里可以找到车站？"),
        (None, "zh-Hant", "我们在哪里可以找到车站？", [], "我們在哪裡可以找到車站？"),
    ],
)
def test_a_variant_is_converted_and_what_is_protected_is_not(
    source, target, text, rows, expected
):
    model = Model(
        lambda text: (
            re.sub("(?i)hi", "软件", text)
            if source == "en"
            else re.sub("([。？]|$)", r"+\1", text, count=1)
        )
    )
    (found,) = translate(model, text, source=source, target=target)
    assert found.renderings[0].text == expected
    assert [row["src_text"] for row in model.rows] == rows
    languages = {(row["src_lang"], row["tgt_lang"]) for row in model.rows}
    assert languages <= {("en", "zh"), ("zh", "ko")}


@pytest.mark.parametrize(
    ("source", "target", "text", "asked", "expected"),
    [
        ("en", "zh-Hant", "Hi", ["zh-Hant"], "软件"),
        ("en", "zh-HK", "Hi", ["zh"], "軟件"),
        ("en", "sr-Latn", "Hi", ["sr-Latn"], "Љ"),
        ("en", "zh", "Hi", ["zh"], "软件"),
        ("zh", "zh-Hant", "软件", [], "軟體"),
    ],
)
def test_a_variant_comes_from_a_model_that_writes_it_unless_it_is_converted(
    source, target, text, asked, expected
):
    written = ("zh", "zh-Hant", "sr-Latn")
    wanted = TranslationRequest(source, target, (text,), is_list=False, written=written)
    rows: list[dict[str, Any]] = []

    def ask(found):
        rows.extend(found)
        return [
            {"translated": "Љ" if r["tgt_lang"] == "sr-Latn" else "软件", "score": 0}
            for r in found
        ]

    identifier = Identifier(LANGUAGES)
    (answer,) = translate_batch(wanted.texts, wanted, identifier, ask)
    assert [row["tgt_lang"] for row in rows] == asked
    assert isinstance(answer, TranslatedText)
    assert answer.renderings[0].text == expected


def test_texts_of_one_request_are_translated_converted_or_left_alone():
    model = Model(lambda text: text.replace("Where is the station", "车站在哪里"))
    asked = "Where is the station?"
    texts = (asked, "我们在哪里可以找到车站？", "12", asked)
    found = translate(model, *texts, source=None, target="zh-Hant", alternatives=1)
    station, other = "車站在哪裡?", "我們在哪裡可以找到車站？"
    assert [f.renderings[0].text for f in found] == [station, other, "12", station]
    assert len(model.rows) == 1


@given(st.text(), st.sampled_from(["zh", "zh-HK"]))
def test_what_has_no_chinese_is_converted_byte_for_byte(text, source):
    text = re.sub(r"[\u2e80-\U0003ffff]", "", text)
    (found,) = translate(Model(), text, source=source, target="zh-Hant")
    assert found.renderings[0].text == text
