"""The output vocabulary of a language: what is in it, and what comes through it."""

from __future__ import annotations

import hashlib
import json
from io import BufferedReader
from pathlib import Path

import pytest

from handlers.engine.directories import Digests
from handlers.engine.translation import conversion
from handlers.engine.translation.ctranslate2 import CTranslate2Engine
from handlers.engine.translation.m2m100 import (
    LIST_FILE,
    Decoding,
    Sentence,
    list_pieces,
    read_list,
    suits,
)
from tests.random_m2m100 import PHRASEBOOK

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
def test_a_list_has_the_pieces_that_the_languages_are_written_with(
    languages: list[str], left_out: list[str]
):
    tokens = [f"__{language}__" for language in languages]
    vocabulary = [*PIECES, "__fr__", "__ko__", "madeupword0"]
    expected = [piece for piece in PIECES if piece not in left_out]
    assert list_pieces(vocabulary, languages) == [*expected, *tokens]


@pytest.mark.parametrize(
    ("pieces", "is_suited"),
    [
        pytest.param(["▁the", "42"], True, id="listed"),
        pytest.param(["안녕"], True, id="the source's own script"),
        pytest.param(["안녕", "▁Привет"], False, id="a name in a third script"),
        pytest.param([], True, id="nothing"),
    ],
)
def test_a_text_with_a_third_script_needs_all_pieces(
    pieces: list[str], is_suited: bool
):
    french = frozenset(list_pieces(PIECES, ["fr"]))
    assert suits(french, pieces, "ko") == is_suited


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the phrasebook's conversions."""
    return tmp_path_factory.mktemp("vocabulary")


def test_a_restricted_model_shares_its_files_with_the_whole_one(cache: Path):
    whole = conversion.convert(PHRASEBOOK, cache, "int8")
    french = conversion.convert(PHRASEBOOK, cache, "int8", languages=["fr"])
    assert (whole / "model.bin").samefile(french / "model.bin")
    assert not (whole / LIST_FILE).exists()
    everything = json.loads((french / "shared_vocabulary.json").read_text("utf-8"))
    assert read_list(french) == frozenset(list_pieces(everything, ["fr"]))
    assert conversion.convert(PHRASEBOOK, cache, "int8", languages=["fr"]) == french


def test_a_run_reads_the_shared_files_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch
):
    read: list[str] = []

    def digest(file: BufferedReader, name: str) -> object:
        read.append(Path(file.name).name)
        return file_digest(file, name)

    def check(digests: Digests) -> None:
        read.clear()
        for language in ("fr", "ko"):
            conversion.convert(
                PHRASEBOOK, cache, "int8", languages=[language], digests=digests
            )

    file_digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", digest)
    for run in range(2):
        check(Digests())
        assert read.count("model.bin") == 1, run
        assert read.count(LIST_FILE) == 2, run


def test_rows_that_need_other_pieces_get_them(cache: Path):
    rows = [
        Sentence("Good morning", "en", "fr"),
        Sentence("Where is Привет?", "en", "fr"),
        Sentence("Thank you", "en", "fr"),
    ]
    whole = CTranslate2Engine(conversion.convert(PHRASEBOOK, cache, "int8"))
    french = conversion.convert(PHRASEBOOK, cache, "int8", languages=["fr"])
    listed = CTranslate2Engine(french)
    expected, found = whole.translate(rows), listed.translate(rows)
    assert [t.text for t in found] == [t.text for t in expected]
    assert found[1].score == pytest.approx(expected[1].score, abs=1e-3)
    assert found[0].score > expected[0].score  # the probability has fewer pieces


def test_a_second_attempt_has_all_pieces(cache: Path):
    careful = Decoding().careful()
    row = Sentence("Good morning", "en", "fr", careful)
    french = conversion.convert(PHRASEBOOK, cache, "int8", languages=["fr"])
    whole = conversion.convert(PHRASEBOOK, cache, "int8")
    (listed,) = CTranslate2Engine(french).translate([row])
    (expected,) = CTranslate2Engine(whole).translate([row])
    assert listed.score == pytest.approx(expected.score, abs=1e-3)
