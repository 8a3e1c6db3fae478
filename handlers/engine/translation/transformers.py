"""The reference engine: M2M100 on Transformers, with the same answers but slower."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LogitsProcessorList,
    M2M100ForConditionalGeneration,
    RepetitionPenaltyLogitsProcessor,
)

from contract.languages import M2M100
from handlers.engine.directories import read_settings
from handlers.engine.inference import choose_device, infer
from handlers.engine.translation.m2m100 import (
    UNKNOWN,
    Decoding,
    Sentence,
    Tokenizer,
    Translation,
    common_decoding,
    language_token,
    longest_answer,
    read_beams,
)

_PAD_ID = 1
_EOS_ID = 2


class TransformersEngine:
    """Translates with a Hugging Face directory, float32 on a CPU, float16 on a GPU."""

    #: One batch uses all cores.
    translators = 1

    def __init__(
        self,
        directory: Path,
        *,
        device: str = "cpu",
        index: int = 0,
        compute_type: str = "float32",
    ) -> None:
        self.tokenizer = Tokenizer(directory)
        self._device = choose_device(device, index)
        languages = map(language_token, M2M100)
        first = len(self.tokenizer.ids)
        self._ids = self.tokenizer.ids | {
            token: first + i for i, token in enumerate(languages)
        }
        self._tokens = {i: token for token, i in self._ids.items()}
        self._model = (
            M2M100ForConditionalGeneration.from_pretrained(
                directory, dtype=getattr(torch, compute_type), local_files_only=True
            )
            .to(self._device)
            .eval()
        )
        self.max_tokens: int = read_settings(directory).get(
            "max_tokens", self._model.config.max_position_embeddings
        )

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        """One translation per sentence, in order."""
        decoding = common_decoding(sentences)
        return infer(lambda: self._translate(sentences, decoding))

    def _translate(
        self, sentences: Sequence[Sentence], decoding: Decoding
    ) -> list[Translation]:
        unknown = self._ids[UNKNOWN]
        rows = [
            [self._ids.get(token, unknown) for token in sentence.tokens]
            for sentence in self.tokenizer.tokenize(sentences)
        ]
        starts = [[_EOS_ID, self._ids[language_token(s.target)]] for s in sentences]
        longest = max(map(len, rows))
        inputs = torch.tensor([row + [_PAD_ID] * (longest - len(row)) for row in rows])
        kept = decoding.beams
        processors = LogitsProcessorList()
        if decoding.repetition_penalty != 1:
            # The first start token is the end token, whose first use is no repetition.
            processors.append(
                RepetitionPenaltyLogitsProcessor(
                    decoding.repetition_penalty, prompt_ignore_length=1
                )
            )
        forbidden = [[self._ids.get(t, unknown) for t in s] for s in decoding.forbidden]
        output = self._model.generate(
            input_ids=inputs.to(self._device),
            attention_mask=(inputs != _PAD_ID).long().to(self._device),
            decoder_input_ids=torch.tensor(starts).to(self._device),
            num_beams=decoding.beams,
            num_return_sequences=kept,
            early_stopping=False,
            no_repeat_ngram_size=decoding.no_repeat_ngram_size,
            bad_words_ids=forbidden or None,
            logits_processor=processors,
            forced_bos_token_id=None,
            # The first of the two start tokens is not scored.
            max_length=1 + longest_answer(longest, self.max_tokens),
            return_dict_in_generate=True,
            output_scores=True,
        )
        hypotheses = [
            ([self._tokens.get(i, UNKNOWN) for i in ids], score)
            for ids, score in zip(
                output.sequences.tolist(), self._scores(output), strict=True
            )
        ]
        beams = [hypotheses[i : i + kept] for i in range(0, len(hypotheses), kept)]
        return read_beams(beams, self.tokenizer, decoding)

    def _scores(self, output: Any) -> list[float]:
        """Mean log-probabilities; without a beam `generate` does not return them."""
        if "sequences_scores" in output:
            scores: list[float] = output.sequences_scores.tolist()
            return scores
        steps = self._model.compute_transition_scores(
            output.sequences, output.scores, normalize_logits=True
        )
        tokens = output.sequences[:, -steps.shape[1] :]
        is_token = tokens != _PAD_ID
        means = (steps * is_token).sum(1) / is_token.sum(1)
        return list(means.tolist())
