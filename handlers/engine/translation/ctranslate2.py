"""The default engine: CTranslate2, int8 on a CPU, float16 on a GPU."""

import os
from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from handlers.engine.directories import ModelError, find_damage, read_settings
from handlers.engine.errors import device_errors, run_in_groups
from handlers.engine.translation.engine import (
    Sentence,
    Translation,
    longest_answer,
    read_beams,
)
from handlers.engine.translation.families import find_family
from handlers.engine.translation.tokenizer import read_list, suits

#: With CTranslate2's default 1, the search ends before it finds the hypotheses that
#: Transformers finds. A beam of one has no other hypotheses.
_PATIENCE = 2


class CTranslate2Engine:
    """An engine for a directory that `conversion.convert` wrote.

    A CPU has one single-threaded translator per core: two translators with half a batch each
    are faster than one with two threads (13.8 against 10.5 sentences/s at M2M100-418M's size,
    with 20 tokens in and out). Raises ModelError if a file's size changed since the conversion.
    """

    def __init__(
        self, directory: Path, *, gpu: int | None = None, compute_type: str = "int8"
    ) -> None:
        fault = find_damage(directory)
        if fault:
            raise ModelError(
                f"{directory} is damaged ({fault}); `make up` converts the model again"
            )
        self.tokenizer = find_family(directory).load_tokenizer(directory)
        self.max_tokens: int = read_settings(directory)["max_tokens"]
        self.translators = len(os.sched_getaffinity(0)) if gpu is None else 1
        self._vocabulary = read_list(directory)
        self._model = ctranslate2.Translator(
            str(directory),
            device="cpu" if gpu is None else "cuda",
            device_index=gpu or 0,
            compute_type=compute_type,
            inter_threads=self.translators,
            intra_threads=1,
        )

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        """One translation per sentence, in order, as Transformers' beam search finds them."""
        tokenized = self.tokenizer.tokenize(sentences)
        return run_in_groups(self._search, tokenized, self._is_listed)

    def _is_listed(self, sentence: Sentence) -> bool:
        """Whether the output vocabulary is sufficient. A second attempt may use all pieces."""
        pieces = (t for t in sentence.tokens if t not in self.tokenizer.control)
        return (
            self._vocabulary is not None
            and not sentence.decoding.is_careful
            and suits(self._vocabulary, pieces, sentence.source)
        )

    def _search(self, sentences: Sequence[Sentence]) -> list[Translation]:
        """Translate sentences for which `_is_listed` is the same."""
        decoding = sentences[0].decoding
        patience = _PATIENCE if decoding.beams > 1 else 1
        # All prefixes of a family are equally long.
        prefixes = [list(self.tokenizer.list_prefix(s)) for s in sentences]
        with device_errors():
            results = self._model.translate_batch(
                [s.tokens for s in sentences],
                target_prefix=prefixes if prefixes[0] else None,
                use_vmap=self._is_listed(sentences[0]),
                beam_size=decoding.beams,
                patience=patience,
                num_hypotheses=decoding.beams * patience,
                no_repeat_ngram_size=decoding.no_repeat_ngram_size,
                repetition_penalty=decoding.repetition_penalty,
                suppress_sequences=[list(tokens) for tokens in decoding.forbidden],
                max_input_length=0,
                max_decoding_length=longest_answer(
                    max(len(s.tokens) for s in sentences), self.max_tokens
                ),
                return_scores=True,
                return_end_token=True,
            )
        beams = (
            [
                (tokens, _correct(score, len(tokens), len(prefixes[0])))
                for tokens, score in zip(r.hypotheses, r.scores, strict=True)
            ]
            for r in results
        )
        return read_beams(beams, self.tokenizer, decoding)


def _correct(score: float, tokens: int, given: int) -> float:
    """Convert a score to that of Transformers. CTranslate2's mean also counts the language
    token, which is given and therefore has a log-probability of 0."""
    return score * tokens / max(1, tokens - given)
