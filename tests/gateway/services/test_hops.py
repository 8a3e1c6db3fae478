"""Texts that pass through two models, and fallback models, through the whole gateway in front
of a backend that records its rows.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from flask.testing import FlaskClient

from contract.problems import write_problem
from gateway.admission.control import Admission
from gateway.backends.backend import ModelState
from gateway.cache import table
from gateway.errors import DeadlineExceeded, NotReady, RowProblem
from tests.gateway.conftest import MakeClient, StatelessBackend

#: The languages that each model reads, and those of the map.
SOURCES = {"many": "de en es", "other": "de en", "en-fr": "en", "ko-ja": "ko"}
LANGUAGES = ("en", "es", "fr", "ja")
TARGETS: dict[str, dict[str, Any]] = {
    "fr": {"model": "en-fr"},
    "ja": {"model": "ko-ja"},
}
GERMAN = "Guten Morgen, wie geht es Ihnen heute?"
#: The refusal of a German text with the target Japanese.
NO_WAY = "'ja' is not served from 'de'; expected one of en, es, fr"

#: The fields that a model adds to its answers, or the error that it raises.
Behaviour = Callable[[str], dict[str, Any]] | dict[str, Any] | Exception


class Models(StatelessBackend):
    """Models whose answers show their names and input, unless a test sets other behaviours."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self.asked: list[Mapping[str, Any]] = []
        self.deadlines: list[float] = []
        self.behave: dict[str, Behaviour] = {}

    def predict(self, model, row, *, deadline) -> dict[str, Any]:
        asked = json.loads(row.body)
        text = asked["src_text"]
        self.asked.append(asked)
        self.rows.append((model, asked["src_lang"], text))
        self.deadlines.append(deadline)
        answer = {"translated": f"{model}:{text}", "score": -0.2, "quality": 0.9}
        own = self.behave.get(model, {})
        if isinstance(own, Exception):
            raise own
        if asked["alternatives"]:
            answer["alternatives"] = [{"text": f"other {text}", "score": -0.4}]
        added = own(text) if callable(own) else own
        return answer | {"model": f"digest-{model}"} | added

    def states(self, models: Sequence[str]) -> dict[str, ModelState | None]:
        return dict.fromkeys(models, ModelState(True, 64, 0, life="one"))


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture
def serve(tmp_path: Path, map_path: Path, make_client: MakeClient, models: Models):
    """A function that makes a client of a gateway whose map has the given targets."""
    table.share.cache_clear()

    def name(own: dict[str, Any]) -> dict[str, Any]:
        found = {k: str(tmp_path / own[k]) for k in ("model", "fallback") if k in own}
        return own | found

    def make(
        targets: Mapping[str, dict[str, Any]] = TARGETS, **section: Any
    ) -> FlaskClient:
        for model, sources in SOURCES.items():
            (tmp_path / model).mkdir(exist_ok=True)
            said = {"languages": LANGUAGES, "sources": sources.split()}
            (tmp_path / model / "babelgate.json").write_text(json.dumps(said))
        own = {code: name(each) for code, each in targets.items()}
        found = {"pivot": "en", "model": str(tmp_path / "many"), "targets": own}
        content: dict[str, Any] = {"cuda_id": dict.fromkeys(LANGUAGES, "cpu")}
        map_path.write_text(json.dumps(content | {"translation": found | section}))
        return make_client(models)

    return make


def ask(
    client: FlaskClient, text: Any, headers: dict[str, str] | None = None, **given: Any
) -> Any:
    content = {"src_lang": "de", "src_text": text, "tgt_lang": "fr"} | given
    return client.post("/", json=content, headers=headers)


def test_a_text_goes_through_the_pivot_and_the_answer_names_both_models(serve, models):
    response = ask(serve(), "Hallo {name}!", explain=True)
    assert response.json["translated"] == "fr:en:Hallo {name}!"
    assert models.rows == [("en", "de", "Hallo {0}!"), ("fr", "en", "en:Hallo {0}!")]
    assert [row["tgt_lang"] for row in models.asked] == ["en", "fr"]
    named = "many@digest-en, en-fr@digest-fr"
    assert response.headers["X-Babelgate-Model"] == response.json["model"] == named


def test_a_text_whose_language_is_identified_takes_the_same_path(serve, models):
    client = serve()
    answer = ask(client, GERMAN, src_lang="auto").json
    assert (answer["src_lang"], answer["translated"]) == ("de", f"fr:en:{GERMAN}")
    mixed = ask(client, [GERMAN, "How are you today?"], src_lang="auto").json
    assert mixed["translated"] == [f"fr:en:{GERMAN}", "fr:How are you today?"]


@pytest.mark.parametrize("forgetful", ["en", "fr"])
def test_placeholders_that_a_model_loses_are_still_there(serve, models, forgetful):
    def forget(text: str) -> dict[str, Any]:
        return {"translated": re.sub(r"\{\d+\}", "", text).upper()}

    models.behave = dict.fromkeys(("en", "fr"), lambda text: {"translated": text})
    models.behave[forgetful] = forget
    answer = ask(serve(), "Hallo {name}, hier ist https://a.example und {x}.").json
    assert answer["translated"] == "HALLO {name}, HIER IST https://a.example UND {x}."


def test_terms_of_a_glossary_pass_through_both(serve, models):
    client = serve()
    pair = {"name": "g", "src_lang": "de", "tgt_lang": "fr"}
    client.post("/glossaries", json=pair | {"entries": {"Rechnung": "facture"}})
    answer = ask(client, "Die Rechnung ist da.", glossary="g").json
    assert answer["translated"] == "fr:en:Die facture ist da."
    texts = [text for *_, text in models.rows]
    assert texts == ["Die {0} ist da.", "en:Die {0} ist da."]


def test_an_answer_is_as_sure_as_both_are_and_has_the_warnings_of_both(serve, models):
    models.behave = {
        "en": {"quality": 0.8, "score": -1.0, "warnings": ["a", "b"]},
        "fr": {"quality": 0.5, "score": -0.5, "warnings": ["b", "c"]},
    }
    answer = ask(serve(), "Hallo.", quality=True, alternatives=1).json
    assert answer["quality"] == 0.4
    assert answer["warnings"] == ["a", "b", "c"]
    (other,) = answer["alternatives"]
    assert other == {"text": "other en:Hallo.", "score": -0.7}
    assert [row["alternatives"] for row in models.asked] == [0, 1]


def test_the_first_model_has_a_share_of_the_time(serve, models):
    began = time.monotonic()
    ask(serve(), "Hallo.", {"X-Timeout-Ms": "20000"})
    first, last = models.deadlines
    assert began < first < last - 9


def test_each_half_is_kept_by_its_own_model(serve, models):
    client = serve()
    for text in ("Hallo.", "Hallo."):
        response = ask(client, text)
    assert len(models.rows) == 2
    named = "many@digest-en, en-fr@digest-fr"
    assert response.headers["X-Babelgate-Model"] == named
    assert ask(client, "Hallo.", tgt_lang="en").json["translated"] == "en:Hallo."
    assert len(models.rows) == 2
    ask(client, "en:Hallo.", src_lang="en")
    assert len(models.rows) == 2
    ask(client, "Hallo.", beam_size=3)
    assert len(models.rows) == 4


def test_rows_are_admitted_to_both_models(serve, models, monkeypatch):
    admit = create_autospec(Admission.admit, side_effect=Admission.admit)
    monkeypatch.setattr(Admission, "admit", admit)
    client = serve()
    ask(client, ["Hallo.", "Wie geht es?"])
    first, last = (call.args for call in admit.mock_calls)
    assert (first[1], last[1], first[3]) == ("en", "fr", last[3])
    admit.reset_mock()
    ask(client, ["Hallo.", "Danke."])
    admitted = [(call.args[1], len(call.args[3])) for call in admit.mock_calls]
    assert admitted == [("en", 1), ("fr", 1)]


def test_a_sentence_that_the_second_model_cannot_take_is_divided(serve, models):
    def limit(text: str) -> dict[str, Any]:
        if len(text) > 30:
            counts = {"tokens": len(text), "limit": 30}
            raise RowProblem(write_problem("text-too-long", 422, "long", **counts))
        return {"translated": text}

    models.behave = {"en": lambda text: {"translated": text}, "fr": limit}
    text = "ein langer Satz mit vielen Worten, die nicht enden wollen."
    answer = ask(serve(), text).json
    assert answer["translated"] == text
    assert "longer than the model takes" in answer["warnings"][0]


def test_an_empty_first_answer_needs_no_second(serve, models):
    models.behave["en"] = {"translated": ""}
    assert ask(serve(), "Hallo").json["translated"] == ""
    assert [model for model, *_ in models.rows] == ["en"]


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "no way from there": ({"tgt_lang": "ja"}, f"tgt_lang: {NO_WAY}"),
    "no way at all, without a word": (
        {"src_lang": "sv", "src_text": "1"},
        "src_lang: 'sv' is not served; expected one of de, en, es",
    ),
    "in a list": (
        {"src_lang": "auto", "src_text": ["1", GERMAN], "tgt_lang": "ja"},
        f"src_text[1]: tgt_lang: {NO_WAY}",
    ),
}


@pytest.mark.parametrize(("given", "says"), REFUSALS.values(), ids=REFUSALS)
def test_a_pair_without_a_way_is_refused(serve, models, given, says):
    response = ask(serve(), GERMAN, **given)
    assert (response.status_code, response.json["detail"]) == (422, says)
    assert response.json["type"].endswith("unknown-language")
    assert models.rows == []


def test_other_apis_refuse_it_in_their_own_words(serve):
    client = serve()
    fields: dict[str, Any] = {"q": "Hallo", "source": "de", "target": "ja"}
    refused = client.post("/translate", json=fields)
    assert (refused.status_code, refused.json) == (400, {"error": f"target: {NO_WAY}"})
    fields = {"text": ["Hallo"], "source_lang": "DE", "target_lang": "JA"}
    refused = client.post("/v2/translate", json=fields)
    assert refused.status_code == 400
    assert refused.json["message"] == f"target_lang: {NO_WAY}"


@pytest.mark.parametrize(
    ("path", "source", "target", "status"),
    [
        ("/documents", "src_lang", "tgt_lang", 422),
        ("/translate_file", "source", "target", 400),
    ],
)
def test_a_document_without_a_way_is_refused_at_once(
    serve, path, source, target, status
):
    form: dict[str, Any] = {source: "de", target: "ja"}
    form["file"] = BytesIO(b"Hallo"), "a.txt"
    refused = serve().post(path, data=form)
    assert refused.status_code == status
    assert f"{target}: 'ja' is not served from 'de'" in refused.text


def test_the_languages_have_the_ways_from_each(serve):
    listed = {each["code"]: each["targets"] for each in serve().get("/languages").json}
    assert listed == {
        "en": ["en", "es", "fr"],
        "es": ["en", "es", "fr"],
        "fr": ["fr"],
        "ja": ["ja"],
    }


REPLACED = {"fr": {"model": "en-fr", "fallback": "many", "fallback_quality": 0.5}}
DOWN, LATE = NotReady("No worker."), DeadlineExceeded("the model answered")
WRONG = RowProblem(write_problem("text-too-long", 422, "too long"))
UNSURE: dict[str, Any] = {"quality": 0.4}

#: The behaviour of the target's own model and of its fallback, the models that are asked,
#: the one whose answer counts, and the status.
FALLBACKS: dict[str, tuple[Behaviour, Behaviour, list[str], str, int]] = {
    "sure": ({}, {}, ["fr"], "fr", 200),
    "down": (DOWN, {}, ["fr", "en"], "en", 200),
    "unsure": (UNSURE, {}, ["fr", "en"], "en", 200),
    "both unsure": (UNSURE, {"quality": 0.3}, ["fr", "en"], "fr", 200),
    "unsure, and the other is down": (UNSURE, DOWN, ["fr", "en"], "fr", 200),
    "both down": (DOWN, DOWN, ["fr", "en"], "", 503),
    "late": (LATE, {}, ["fr"], "", 504),
    "the text is wrong": (WRONG, {}, ["fr"], "", 422),
    "down, and the text is wrong": (DOWN, WRONG, ["fr", "en"], "", 422),
}


@pytest.mark.parametrize(
    ("own", "other", "asked", "answers", "status"), FALLBACKS.values(), ids=FALLBACKS
)
def test_a_fallback_answers_once_where_the_model_does_not(
    serve, models, own, other, asked, answers, status
):
    models.behave = {"fr": own, "en": other}
    response = ask(serve(REPLACED), "Hello.", src_lang="en")
    assert response.status_code == status
    assert [model for model, *_ in models.rows] == asked
    if answers:
        assert response.json["translated"] == f"{answers}:Hello."
        named = {"fr": "en-fr@digest-fr", "en": "many@digest-en"}
        assert response.headers["X-Babelgate-Model"] == named[answers]


def test_a_fallback_is_not_asked_for_its_quality_unless_the_map_says_so(serve, models):
    models.behave["fr"] = {"quality": 0.0}
    client = serve({"fr": {"model": "en-fr", "fallback": "many"}})
    assert ask(client, "Hello.", src_lang="en").json["translated"] == "fr:Hello."
    assert [model for model, *_ in models.rows] == ["fr"]


def test_a_fallback_takes_only_what_it_reads(serve, models):
    models.behave = {"ja": DOWN}
    own = {"ja": {"model": "ko-ja", "fallback": "many", "fallback_quality": 1.0}}
    response = ask(serve(own), "안녕하세요.", src_lang="ko", tgt_lang="ja")
    assert response.status_code == 503
    models.behave = {}
    response = ask(serve(own), "안녕하세요.", src_lang="ko", tgt_lang="ja")
    assert response.json["translated"] == "ja:안녕하세요."
    assert [model for model, *_ in models.rows] == ["ja", "ja"]


def test_either_half_of_a_path_may_fall_back(serve, models):
    targets = {
        "en": {"model": "other", "fallback": "many"},
        "fr": {"model": "en-fr", "fallback": "many"},
    }
    models.behave = {"fr": DOWN, "en": DOWN}
    answer = ask(serve(targets), "Hallo.").json
    assert answer["translated"] == "es:es:Hallo."
    assert [model for model, *_ in models.rows] == ["en", "es", "fr", "es"]


def test_answers_of_both_are_kept(serve, models):
    models.behave["fr"] = UNSURE
    client = serve(REPLACED)
    for _ in range(2):
        assert ask(client, "Hello.", src_lang="en").json["translated"] == "en:Hello."
    assert [model for model, *_ in models.rows] == ["fr", "en"]
