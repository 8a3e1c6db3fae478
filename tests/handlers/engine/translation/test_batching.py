"""The batches that an engine gets, with an engine that answers at once."""

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.engine.errors import OutOfMemory, TooLate
from handlers.engine.translation.batching import Answer, Batcher, pack, spread
from handlers.engine.translation.engine import Decoding, Sentence, Translation
from handlers.engine.translation.guard import Fault
from tests.handlers.fakes import FakeEngine

USUAL = Decoding()
WIDE = Decoding(beam_size=5)
LONG = "Das ist der Hund, von dem die Nachbarn gestern alle gesprochen haben."
LOOP = "der Hund der Hund der Hund der Hund der Hund"


def sentence(text: str, decoding: Decoding = USUAL) -> Sentence:
    return Sentence(text, "en", "de", decoding)


def words(*counts: int) -> list[Sentence]:
    """Make sentences with these numbers of words, all names, which a translation may copy."""
    return [sentence(f"T{i}" + " W" * (n - 1)) for i, n in enumerate(counts)]


def texts(answers: Sequence[Answer]) -> list[str]:
    """The translated texts, or `too large` for a row without one."""
    return [a.text if isinstance(a, Translation) else "too large" for a in answers]


def translated(sentences: Sequence[Sentence]) -> list[str]:
    return [f"[de] {s.text}" for s in sentences]


@pytest.mark.parametrize("max_tokens", [0, 1, 30, 4096])
@pytest.mark.parametrize("translators", [1, 3])
def test_answers_come_back_in_order(max_tokens: int, translators: int):
    engine = FakeEngine(translators=translators)
    sentences = words(*(1 + 7 * i % 11 for i in range(64)))
    answers, _ = Batcher(engine, max_tokens=max_tokens).translate(sentences)
    assert texts(answers) == translated(sentences)


def test_without_a_budget_a_batch_runs_as_it_came():
    engine = FakeEngine()
    sentences = words(1, 9, 2)
    _, counts = Batcher(engine, max_tokens=0).translate(sentences)
    assert engine.batches == [[s.text for s in sentences]]
    assert (counts["BabelgateTokens"], counts["BabelgatePaddingTokens"]) == (18, 15)


def test_translators_work_at_the_same_time():
    """Each translator waits until the other has its pack, too."""
    both = threading.Barrier(2, timeout=60)

    class Waiting(FakeEngine):
        def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
            both.wait()
            return super().translate(sentences)

    engine = Waiting(translators=2)
    sentences = words(*[3] * 64)
    answers, _ = Batcher(engine, max_tokens=4096).translate(sentences)
    assert texts(answers) == translated(sentences)
    assert [len(batch) for batch in engine.batches] == [32, 32]


def test_equal_sentences_are_translated_once():
    engine = FakeEngine()
    hello, bye = sentence("Hello"), sentence("Bye")
    rows = [hello, bye, hello, hello]
    answers, counts = Batcher(engine, max_tokens=4096).translate(rows)
    assert texts(answers) == translated(rows)
    assert engine.batches == [["Hello", "Bye"]]
    assert counts["BabelgateDeduplicatedRows"] == 2


def test_each_decoding_has_its_own_packs():
    engine = FakeEngine()
    rows = [sentence("A"), sentence("B", WIDE), sentence("C")]
    answers, _ = Batcher(engine, max_tokens=4096).translate(rows)
    assert texts(answers) == translated(rows)
    assert engine.batches == [["A", "C"], ["B"]]
    assert engine.decodings == [USUAL, WIDE]


@pytest.mark.parametrize(
    ("decoding", "packs"),
    [(Decoding(1), 1), (USUAL, 1), (Decoding(4), 2), (Decoding(8), 4)],
    ids=["1", "2", "4", "8"],
)
def test_wider_beams_make_smaller_packs(decoding: Decoding, packs: int):
    engine = FakeEngine()
    rows = [sentence(word.text, decoding) for word in words(*[4] * 16)]
    tokens = sum(len(engine.tokenizer.encode(row.text, row.source)) for row in rows)
    Batcher(engine, max_tokens=tokens).translate(rows)
    assert len(engine.batches) == packs


def test_packs_after_the_deadline_are_not_translated():
    engine = FakeEngine()
    rows = [sentence("Hello"), sentence("Bye")]
    answers, _ = Batcher(engine, max_tokens=4096).translate(rows, deadline=0.0)
    assert [type(answer) for answer in answers] == [TooLate, TooLate]
    assert engine.batches == []


@pytest.mark.parametrize(
    ("text", "said", "fault"),
    [
        ("The dog", LOOP, Fault.LOOP),
        ("The dog", "", Fault.EMPTY),
        ("The dog", LONG, Fault.RATIO),
        ("The dog", "엄청나게 큰 개", Fault.SCRIPT),
    ],
    ids=["loop", "empty", "ratio", "script"],
)
def test_a_faulty_answer_is_searched_for_again(text: str, said: str, fault: Fault):
    engine = FakeEngine(says={text: said})
    rows = [sentence("Yes"), sentence(text), sentence("No")]
    answers, counts = Batcher(engine, max_tokens=4096).translate(rows)
    assert texts(answers) == translated(rows)
    assert all(isinstance(a, Translation) and a.fault is None for a in answers)
    assert engine.batches[1:] == [[text]]
    assert engine.decodings[1] == Decoding(4, 0, 3, 1.3)
    assert counts["BabelgateRedecodedRows"] == 1
    engine.says_carefully = {text: said}
    (answer,), _ = Batcher(engine, max_tokens=4096).translate([rows[1]])
    assert answer == Translation(said, -0.1, fault=fault)
    unguarded = Batcher(engine, max_tokens=4096, is_guarded=False)
    assert unguarded.translate([rows[1]])[0] == [Translation(said, -0.1)]


def test_a_copy_is_searched_for_without_what_was_copied():
    """Copies between the same two languages are translated again together."""
    text, copy, other = "where is my bus now", "how is it there", "wo ist mein Bus"
    engine = FakeEngine(
        says={text: text, copy: copy, other: other, "The dog": LOOP},
        says_carefully={text: "wo ist mein Bus jetzt", copy: copy, other: "my bus?"},
    )
    rows = [*map(sentence, (text, copy, "The dog")), Sentence(other, "de", "en")]
    answers, counts = Batcher(engine, max_tokens=4096).translate(rows)
    assert texts(answers) == ["wo ist mein Bus jetzt", copy, "[de] The dog", "my bus?"]
    faults = [a.fault for a in answers if isinstance(a, Translation)]
    assert faults == [None, Fault.UNTRANSLATED, None, None]
    assert counts["BabelgateRedecodedRows"] == 4
    assert counts["BabelgateUntranslatedRows"] == 1
    forbidden = {
        tuple(batch): [" ".join(tokens) for tokens in decoding.forbidden]
        for batch, decoding in zip(engine.batches, engine.decodings, strict=True)
    }
    assert forbidden[text, copy] == [
        "▁how ▁is ▁it",
        "▁is ▁it ▁there",
        "▁is ▁my ▁bus",
        "▁my ▁bus ▁now",
        "▁where ▁is ▁my",
    ]
    assert forbidden[(other,)] == ["▁ist ▁mein ▁Bus", "▁wo ▁ist ▁mein"]
    assert forbidden["The dog",] == []


@pytest.mark.parametrize(
    ("first_score", "second_score", "kept"),
    [(-0.5, -0.1, "second"), (-0.1, -0.5, "first")],
)
def test_of_two_faulty_answers_the_likelier_is_kept(first_score, second_score, kept):
    class Scoring(FakeEngine):
        def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
            if sentences[0].decoding == USUAL:
                return [Translation(f"{LOOP} first", first_score)]
            return [Translation(f"{LOOP} second", second_score)]

    batcher = Batcher(Scoring(), max_tokens=4096)
    (answer,), _ = batcher.translate([sentence("The dog")])
    assert texts([answer]) == [f"{LOOP} {kept}"]
    assert isinstance(answer, Translation)
    assert answer.fault is Fault.LOOP


@pytest.mark.parametrize(
    ("asked", "searched"), [(1, 4), (2, 4), (3, 6), (4, 8), (8, 8)]
)
def test_the_second_search_is_wider(asked: int, searched: int):
    engine = FakeEngine(says={"The dog": LOOP})
    row = sentence("The dog", Decoding(beam_size=asked, alternatives=2))
    Batcher(engine, max_tokens=4096).translate([row])
    assert engine.decodings[1] == Decoding(searched, 2, 3, 1.3)


def test_a_second_search_that_does_not_fit_leaves_the_first_answer():
    class Narrow(FakeEngine):
        def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
            if sentences[0].decoding.beams > 2:
                raise OutOfMemory
            return super().translate(sentences)

    engine = Narrow(says={"The dog": LOOP})
    (answer,), _ = Batcher(engine, max_tokens=4096).translate([sentence("The dog")])
    assert answer == Translation(LOOP, -0.1, fault=Fault.LOOP)


@pytest.mark.parametrize("translators", [1, 2])
def test_a_batch_that_does_not_fit_is_halved_until_it_does(translators: int):
    engine = FakeEngine(memory=24, translators=translators)
    sentences = words(*[3] * 64)
    answers, counts = Batcher(engine, max_tokens=4096).translate(sentences)
    assert texts(answers) == translated(sentences)
    assert [len(b) for b in engine.batches if len(b) * 3 <= 24] == [8] * 8
    too_large = [b for b in engine.batches if len(b) * 3 > 24]
    assert counts["BabelgateHalvedPacks"] == len(too_large)


def test_an_engine_that_loses_a_row_is_noticed():
    class Forgetful(FakeEngine):
        def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
            return super().translate(sentences)[1:]

    with pytest.raises(ValueError, match="shorter"):
        Batcher(Forgetful(), max_tokens=4096).translate(words(1, 2))


def test_the_statistics_count_what_the_model_read():
    engine = FakeEngine(says={"T1 W W": LOOP})
    rows = [*words(1, 3), *words(1)]
    _, counts = Batcher(engine, max_tokens=4096).translate(rows)
    # 3 and 5 tokens in one pack, and the 5 a second time.
    assert (counts["BabelgateTokens"], counts["BabelgatePaddingTokens"]) == (13, 2)


LENGTHS = st.lists(st.integers(1, 300), max_size=64)
BUDGET = st.integers(1, 5000)
TRANSLATORS = st.integers(1, 8)


def check(packs: list[list[int]], lengths: list[int], max_tokens: int) -> None:
    rows = [row for packed in packs for row in packed]
    assert sorted(rows) == list(range(len(lengths)))
    in_order = [lengths[row] for row in rows]
    assert in_order == sorted(lengths, reverse=True)
    for packed in packs:
        padded = len(packed) * max(lengths[row] for row in packed)
        assert len(packed) == 1 or padded <= max_tokens


@given(LENGTHS, BUDGET, TRANSLATORS)
def test_every_row_is_in_one_pack_by_length_and_within_the_budget(
    lengths, max_tokens, translators
):
    check(pack(lengths, max_tokens=max_tokens), lengths, max_tokens)
    least = len(pack(lengths, max_tokens=max_tokens))
    packs = spread(lengths, max_tokens=max_tokens, translators=translators)
    check(packs, lengths, max_tokens)
    assert least <= len(packs) < least + translators
