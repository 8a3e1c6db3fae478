"""The reference engine: M2M100 on Transformers, with the same answers, slower."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import M2M100ForConditionalGeneration

from handlers.engine.m2m100 import (
    LANGUAGES,
    UNKNOWN,
    Sentence,
    Tokenizer,
    Translation,
    language_token,
    longest_answer,
    read_settings,
)

_PAD_ID = 1
_EOS_ID = 2


class TransformersEngine:
    """Translates with a Hugging Face directory, float32 on a CPU, float16 on a GPU."""

    def __init__(
        self,
        directory: Path,
        *,
        device: str = "cpu",
        index: int = 0,
        compute_type: str = "float32",
    ) -> None:
        self.tokenizer = Tokenizer(directory)
        self._device = torch.device(device, index if device == "cuda" else None)
        languages = map(language_token, LANGUAGES)
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
        """One translation per sentence, in order; beam 2."""
        rows = [self._encode(s) for s in sentences]
        longest = max(map(len, rows))
        inputs = torch.tensor([row + [_PAD_ID] * (longest - len(row)) for row in rows])
        starts = [[_EOS_ID, self._ids[language_token(s.target)]] for s in sentences]
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=inputs.to(self._device),
                attention_mask=(inputs != _PAD_ID).long().to(self._device),
                decoder_input_ids=torch.tensor(starts).to(self._device),
                num_beams=2,
                early_stopping=False,
                forced_bos_token_id=None,
                # The first of the two start tokens does not count.
                max_length=1 + longest_answer(longest, self.max_tokens),
                return_dict_in_generate=True,
                output_scores=True,
            )
        return [
            Translation(
                self.tokenizer.decode([self._tokens.get(i, UNKNOWN) for i in ids]),
                score,
            )
            for ids, score in zip(
                output.sequences.tolist(), output.sequences_scores.tolist(), strict=True
            )
        ]

    def _encode(self, sentence: Sentence) -> list[int]:
        unknown = self._ids[UNKNOWN]
        tokens = self.tokenizer.encode(sentence.text, sentence.source)
        return [self._ids.get(token, unknown) for token in tokens]
