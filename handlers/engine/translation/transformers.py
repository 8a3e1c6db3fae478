"""The reference engine: Transformers, with the same answers but slower."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
)

from handlers.engine.directories import read_settings
from handlers.engine.inference import choose_device, infer
from handlers.engine.translation.engine import (
    Sentence,
    Translation,
    longest_answer,
    read_beams,
)
from handlers.engine.translation.families import find_family
from handlers.engine.translation.tokenizer import UNKNOWN


class TransformersEngine:
    """An engine for a Hugging Face directory, float32 on a CPU, float16 on a GPU."""

    #: One batch uses all cores.
    translators = 1

    def __init__(
        self, directory: Path, *, gpu: int | None = None, compute_type: str = "float32"
    ) -> None:
        family = find_family(directory)
        self.tokenizer = family.load_tokenizer(directory)
        self._device = choose_device(gpu)
        self._tokens = {i: token for token, i in self.tokenizer.ids.items()}
        model = AutoModelForSeq2SeqLM.from_pretrained(
            directory, dtype=getattr(torch, compute_type), local_files_only=True
        )
        self._model = model.to(self._device).eval()
        config = self._model.config
        self._pad, self._start = config.pad_token_id, config.decoder_start_token_id
        # A checkpoint's own defaults would change answers, by forced ends or wider beams.
        self._model.generation_config = GenerationConfig(
            pad_token_id=self._pad,
            eos_token_id=config.eos_token_id,
            decoder_start_token_id=self._start,
        )
        if family.name == "marian":
            # Padding only starts an answer. As a token it would reduce the others' probability.
            self._model.final_logits_bias[:, self._pad] = -torch.inf
        self.max_tokens: int = read_settings(directory).get(
            "max_tokens", family.read_max_tokens(directory)
        )

    def translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        return infer(lambda: self._translate(sentences))

    def _translate(self, sentences: Sequence[Sentence]) -> list[Translation]:
        decoding = sentences[0].decoding
        rows = [
            self._find_ids(sentence.tokens)
            for sentence in self.tokenizer.tokenize(sentences)
        ]
        starts = [
            [self._start, *self._find_ids(self.tokenizer.list_prefix(s))]
            for s in sentences
        ]
        longest = max(map(len, rows))
        inputs = torch.tensor(
            [row + [self._pad] * (longest - len(row)) for row in rows]
        )
        lengths = torch.tensor([[len(row)] for row in rows])
        kept = decoding.beams
        processors = LogitsProcessorList()
        if decoding.repetition_penalty != 1:
            # The first start token may be the end token, whose first use is no repetition.
            processors.append(
                RepetitionPenaltyLogitsProcessor(
                    decoding.repetition_penalty, prompt_ignore_length=1
                )
            )
        forbidden = [self._find_ids(tokens) for tokens in decoding.forbidden]
        output = self._model.generate(
            input_ids=inputs.to(self._device),
            attention_mask=(torch.arange(longest) < lengths).long().to(self._device),
            decoder_input_ids=torch.tensor(starts).to(self._device),
            num_beams=decoding.beams,
            num_return_sequences=kept,
            early_stopping=False,
            no_repeat_ngram_size=decoding.no_repeat_ngram_size,
            bad_words_ids=forbidden or None,
            logits_processor=processors,
            # The first start token is not scored.
            max_length=1 + longest_answer(longest, self.max_tokens),
            return_dict_in_generate=True,
            output_scores=True,
        )
        scored = zip(output.sequences.tolist(), self._scores(output), strict=True)
        hypotheses = [
            ([self._tokens.get(i, UNKNOWN) for i in ids], score)
            for ids, score in scored
        ]
        beams = [hypotheses[i : i + kept] for i in range(0, len(hypotheses), kept)]
        return read_beams(beams, self.tokenizer, decoding)

    def _find_ids(self, tokens: Iterable[str]) -> list[int]:
        ids = self.tokenizer.ids
        return [ids.get(token, ids[UNKNOWN]) for token in tokens]

    def _scores(self, output: Any) -> list[float]:
        """Return mean log-probabilities, which `generate` does not return without a beam."""
        if "sequences_scores" in output:
            scores: list[float] = output.sequences_scores.tolist()
            return scores
        steps = self._model.compute_transition_scores(
            output.sequences, output.scores, normalize_logits=True
        )
        tokens = output.sequences[:, -steps.shape[1] :]
        is_end = (tokens == self._model.config.eos_token_id).int()
        is_token = is_end.cumsum(1) - is_end == 0
        means = (steps * is_token).sum(1) / is_token.sum(1)
        return list(means.tolist())
