"""Deduplicates and groups the sentences of a batch for an engine, and checks the answers."""

import math
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, repeat

from handlers.engine.errors import OutOfMemory, TooLate, run_in_halves
from handlers.engine.translation.engine import Decoding, Engine, Sentence, Translation
from handlers.engine.translation.guard import Fault, find_fault
from handlers.engine.translation.tokenizer import Tokenizer, list_trigrams

Answer = Translation | OutOfMemory | TooLate

#: The beam size that `max_tokens` assumes. Wider beams make packs smaller.
_USUAL_BEAMS = 2


class Batcher:
    """A wrapper of an engine that splits batches into packs of at most `max_tokens` tokens,
    with padding, at beam 2, fewer at wider beams; with 0, into one per translator, in order.

    Equal sentences are translated once. A sentence whose answer has a fault is translated
    again, more carefully. A pack that does not fit into memory is halved.
    """

    def __init__(
        self, engine: Engine, *, max_tokens: int, is_guarded: bool = True
    ) -> None:
        self._engine = engine
        self._max_tokens = max_tokens
        self._is_guarded = is_guarded
        self._pool = ThreadPoolExecutor(engine.translators)

    def translate(
        self, sentences: Sequence[Sentence], *, deadline: float = math.inf
    ) -> tuple[list[Answer], dict[str, int]]:
        """Return one answer per sentence, in order, and the counts of the batch, including
        second attempts. Packs that would start after `deadline`, in seconds of the monotonic
        clock, are not translated. Raises every error of the engine except OutOfMemory."""
        unique = self._engine.tokenizer.tokenize(list(dict.fromkeys(sentences)))
        packs = self._pack(unique)
        answers, halved = self._translate_packs(packs, deadline)
        second = _plan_second(answers, self._engine.tokenizer)
        second_packs = self._pack(list(dict.fromkeys(second.values())))
        second_answers, second_halved = self._translate_packs(second_packs, deadline)
        for sentence, careful in second.items():
            answers[sentence] = _choose(answers[sentence], second_answers[careful])
        packs += second_packs
        lengths = [[len(sentence.tokens) for sentence in pack] for pack in packs]
        tokens = sum(map(sum, lengths))
        return [answers[sentence] for sentence in sentences], {
            # The tokens of the texts, without padding.
            "BabelgateTokens": tokens,
            "BabelgatePaddingTokens": sum(len(pack) * max(pack) for pack in lengths)
            - tokens,
            # Rows answered with the translation of an equal row.
            "BabelgateDeduplicatedRows": len(sentences) - len(unique),
            "BabelgateRedecodedRows": len(second),
            # Rows whose second translation is a copy, too.
            "BabelgateUntranslatedRows": sum(map(_is_untranslated, answers.values())),
            "BabelgateHalvedPacks": halved + second_halved,
        }

    def _pack(self, sentences: Sequence[Sentence]) -> list[list[Sentence]]:
        """Split sentences into packs that share a decoding."""
        translators = self._engine.translators
        by_decoding: dict[Decoding, list[Sentence]] = {}
        for sentence in sentences:
            by_decoding.setdefault(sentence.decoding, []).append(sentence)
        packs: list[list[Sentence]] = []
        for decoding, group in by_decoding.items():
            # Rows of equal length keep their order.
            lengths = [1] * len(group)
            most = len(group)
            if self._max_tokens:
                beams = max(_USUAL_BEAMS, decoding.beams)
                most = max(1, self._max_tokens * _USUAL_BEAMS // beams)
                lengths = [len(sentence.tokens) for sentence in group]
            found = spread(lengths, max_tokens=most, translators=translators)
            packs += [[group[row] for row in rows] for rows in found]
        return packs

    def _translate_packs(
        self, packs: Sequence[Sequence[Sentence]], deadline: float
    ) -> tuple[dict[Sentence, Answer], int]:
        """Return all answers with their faults, and the number of halved packs."""
        at_once = min(len(packs), self._engine.translators)
        run = self._pool.map if at_once > 1 else map
        results = list(run(self._translate, packs, repeat(deadline)))
        answers = chain.from_iterable(found for found, _ in results)
        pairs = zip(chain(*packs), answers, strict=True)
        halved = sum(halved for _, halved in results)
        if not self._is_guarded:
            return dict(pairs), halved
        return {s: _judge(s, answer) for s, answer in pairs}, halved

    def _translate(
        self, sentences: Sequence[Sentence], deadline: float
    ) -> tuple[Sequence[Answer], int]:
        if time.monotonic() > deadline:
            return [TooLate()] * len(sentences), 0
        return run_in_halves(self._engine.translate, sentences)


def _judge(sentence: Sentence, answer: Answer) -> Answer:
    if not isinstance(answer, Translation):
        return answer
    fault = find_fault(sentence.text, answer.text, sentence.source, sentence.target)
    return replace(answer, fault=fault)


def _is_untranslated(answer: Answer) -> bool:
    return isinstance(answer, Translation) and answer.fault is Fault.UNTRANSLATED


def _plan_second(
    answers: Mapping[Sentence, Answer], tokenizer: Tokenizer
) -> dict[Sentence, Sentence]:
    """Map each sentence with a faulty answer to its second attempt, which must not be a copy
    again. Those of a language pair forbid the same trigrams, so that they run in one pack."""
    copied: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for s, answer in answers.items():
        if _is_untranslated(answer):
            trigrams = list_trigrams(tokenizer.split_answer(s.text))
            copied.setdefault((s.source, s.target), set()).update(trigrams)
    return {
        s: replace(
            s,
            decoding=s.decoding.careful(
                copied[s.source, s.target] if _is_untranslated(answer) else ()
            ),
        )
        for s, answer in answers.items()
        if isinstance(answer, Translation) and answer.fault
    }


def _choose(first: Answer, second: Answer) -> Answer:
    """Return the second attempt if it has no fault, else the one with the better score."""
    if not isinstance(first, Translation) or not isinstance(second, Translation):
        return first
    if second.fault is None:
        return second
    return max(first, second, key=lambda translation: translation.score)


def pack(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Group rows of similar length into packs, longest first. A pack has at most `max_tokens`,
    including padding, unless it is a single longer row."""
    packs: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        if packs and lengths[packs[-1][0]] * (len(packs[-1]) + 1) <= max_tokens:
            packs[-1].append(row)
        else:
            packs.append([row])
    return packs


def spread(
    lengths: Sequence[int], *, max_tokens: int, translators: int
) -> list[list[int]]:
    """Group rows into packs for `translators` that run in parallel: as many as `max_tokens`
    requires, rounded up so that no translator is idle, with tokens as equal as possible.

    A larger budget makes fewer packs, so bisection finds the smallest budget that makes no
    more than the wanted number.
    """
    least = len(pack(lengths, max_tokens=max_tokens))
    wanted = -(-least // translators) * translators
    budget = bisect_left(
        range(max_tokens),
        -wanted,
        key=lambda tokens: -len(pack(lengths, max_tokens=tokens)),
    )
    return pack(lengths, max_tokens=budget)
