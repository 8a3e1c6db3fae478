"""The base of every engine: its settings, its tokenizer and its vocabulary."""

import json
import unicodedata
from functools import partial
from pathlib import Path

import pytest

from handlers.engine.directories import SETTINGS_FILE
from handlers.engine.translation import conversion
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.engine import Decoding, Sentence
from handlers.engine.translation.families import m2m100
from handlers.engine.translation.families.m2m100 import IDS_FILE, PIECES_FILE
from handlers.engine.translation.loading import load_engine
from handlers.engine.translation.tokenizer import (
    LIST_FILE,
    list_pieces,
    list_trigrams,
    read_list,
    suits,
)
from models.phrasebook_recipe.phrasebook import MODEL as PHRASEBOOK


@pytest.fixture(scope="module")
def tokenizer() -> m2m100.M2M100Tokenizer:
    return m2m100.M2M100Tokenizer(PHRASEBOOK)


def test_texts_of_all_languages_come_back_from_their_tokens(tokenizer, sentences):
    returned = set()
    for sentence in sentences:
        language, *pieces, end = tokenizer.encode(sentence.text, sentence.source)
        assert (language, end) == (f"__{sentence.source}__", "</s>")
        if tokenizer.ids.keys() >= set(pieces):
            assert tokenizer.decode([[language, *pieces, end]]) == [sentence.text]
            returned.add(sentence.source)
    assert len(returned) == 14


@pytest.mark.parametrize(
    "text", ["", " ", "a  b", "Ça va ?", "がぎぐ", "한국어", "नमस्ते"]
)
def test_however_a_text_is_composed_its_tokens_are_the_same(text, tokenizer):
    composed, decomposed = (unicodedata.normalize(f, text) for f in ("NFC", "NFD"))
    tokens = tokenizer.encode(decomposed, "fr")
    assert tokens == tokenizer.encode(composed, "fr")
    assert tokenizer.decode([tokens]) == [" ".join(composed.split())]
    hidden = f"\u200f{text}\u00ad".replace(" ", "\u00a0")
    assert tokens == tokenizer.encode(hidden, "fr")


def test_tokens_of_no_text_are_not_shown(tokenizer):
    pieces = tokenizer.encode("Hello", "en")[1:-1]
    noise = ["<s>", "__de__", *pieces, "<unk>", "</s>", "<pad>", "madeupword3"]
    assert tokenizer.decode([noise]) == ["Hello"]


def test_an_echo_takes_the_time_that_the_model_directory_says(tmp_path, monkeypatch):
    for name in (PIECES_FILE, IDS_FILE, "config.json"):
        (tmp_path / name).symlink_to(PHRASEBOOK / name)
    cost = {"echo": {"batch_ms": 20, "row_ms": 10, "word_ms": 5}}
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(cost))
    engine = load_engine("echo", tmp_path, compute_type="auto")
    slept: list[float] = []
    monkeypatch.setattr("handlers.engine.translation.loading.time.sleep", slept.append)
    texts = ["Guten Morgen", ""]
    answers = engine.translate([Sentence(text, "de", "en") for text in texts])
    assert [answer.text for answer in answers] == texts
    assert slept == [pytest.approx(0.05)]


PIECES = "<s> <unk> ▁the été ▁Привет 안녕 你好 १२ 42 😀 ж".split()


@pytest.mark.parametrize(
    ("languages", "left_out"),
    [
        pytest.param(["fr"], ["▁Привет", "안녕", "你好", "१२"], id="Latin"),
        pytest.param(["ko"], ["été", "▁Привет", "你好", "१२"], id="Hangul and ASCII"),
        (["hi"], ["été", "▁Привет", "안녕", "你好"]),
        pytest.param(["fr", "zh"], ["▁Привет", "안녕", "१२"], id="two languages"),
    ],
)
def test_a_list_has_the_pieces_that_the_languages_are_written_with(languages, left_out):
    vocabulary = [*PIECES, "__fr__", "__ko__", "madeupword0"]
    expected = [piece for piece in PIECES if piece not in left_out]
    assert list_pieces(vocabulary, languages) == expected


@pytest.mark.parametrize(
    ("pieces", "is_suited"),
    [
        pytest.param(["▁the", "42"], True, id="listed"),
        pytest.param(["안녕"], True, id="the source's own script"),
        pytest.param(["안녕", "▁Привет"], False, id="a name in a third script"),
        pytest.param([], True, id="nothing"),
    ],
)
def test_a_text_with_a_third_script_needs_all_pieces(pieces, is_suited):
    french = frozenset(list_pieces(PIECES, ["fr"]))
    assert suits(french, pieces, "ko") == is_suited


@pytest.fixture(scope="module")
def conversions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The phrasebook's conversions for all languages and for French."""
    convert = partial(conversion.convert, PHRASEBOOK, tmp_path_factory.mktemp("cache"))
    return [convert("int8", languages=languages) for languages in ((), ["fr"])]


def test_a_restricted_model_shares_its_files_with_the_whole_one(conversions):
    whole, french = conversions
    assert (whole / "model.bin").samefile(french / "model.bin")
    assert not (whole / LIST_FILE).exists()
    everything = json.loads((french / "shared_vocabulary.json").read_text("utf-8"))
    expected = frozenset((*list_pieces(everything, ["fr"]), "__fr__"))
    assert read_list(french) == expected
    cache = french.parents[1]
    assert conversion.convert(PHRASEBOOK, cache, "int8", languages=["fr"]) == french


def test_rows_that_need_other_pieces_get_them(conversions):
    rows = [
        Sentence("Good morning", "en", "fr"),
        Sentence("Where is Привет?", "en", "fr"),
        Sentence("Thank you", "en", "fr"),
    ]
    expected, found = (CTranslate2Engine(each).translate(rows) for each in conversions)
    assert [t.text for t in found] == [t.text for t in expected]
    assert found[1].score == pytest.approx(expected[1].score, abs=1e-3)
    assert found[0].score > expected[0].score  # fewer pieces share the probability


def test_a_second_attempt_has_all_pieces(conversions):
    rows = [Sentence("Good morning", "en", "fr", Decoding().careful())]
    expected, found = (CTranslate2Engine(each).translate(rows) for each in conversions)
    assert found[0].score == pytest.approx(expected[0].score, abs=1e-3)


@pytest.mark.parametrize(
    ("pieces", "trigrams"),
    [
        ("▁Where ▁is ▁it ?", ["▁Where ▁is ▁it"]),
        (
            "▁do ct ors , ▁now ▁and ▁th en",
            ["▁do ct ors , ▁now ▁and", "▁now ▁and ▁th en"],
        ),
        ("▁in ▁New ▁York ▁Ci ty ▁Hall", ["▁in ▁New ▁York"]),
        ("▁open ▁{ 0 } ▁and ▁go", ["▁open ▁{ 0 } ▁and ▁go"]),
        ("▁l ' hô tel ▁est", ["▁l ' hô tel ▁est"]),
        ("▁ 现在 几 点 ?", ["现在 几 点"]),
        ("▁ 你 好", ["你 好"]),
        ("▁हि ंदी ▁में ▁बोल ि ए", ["▁हि ंदी ▁में ▁बोल ि ए"]),
        ("▁1 2 ▁!", []),
    ],
)
def test_a_search_can_be_kept_from_three_words_in_a_row(pieces, trigrams):
    found = list_trigrams(pieces.split())
    assert sorted(map(" ".join, found)) == sorted(trigrams)
