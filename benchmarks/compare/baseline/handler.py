"""The baseline's TorchServe handler: one language, float32, row by row."""

from typing import Any

import torch
from transformers import M2M100ForConditionalGeneration, M2M100Tokenizer

_BEAMS = 2


class BaselineHandler:
    """A handler that translates into the language after which its model is named."""

    def initialize(self, context: Any) -> None:
        path = context.model_yaml_config["handler"]["model_path"]
        gpu = context.system_properties.get("gpu_id")
        self.device = torch.device("cpu" if gpu is None else f"cuda:{gpu}")
        self.tokenizer = M2M100Tokenizer.from_pretrained(path)
        model = M2M100ForConditionalGeneration.from_pretrained(
            path, dtype=torch.float32
        )
        self.model = model.to(self.device).eval()
        self.target = self.tokenizer.get_lang_id(context.model_name)

    def handle(self, rows: list[dict[str, Any]], context: Any) -> list[dict[str, str]]:
        encoded = [self._tokenize(row["body"]) for row in rows]
        padded = self.tokenizer.pad(encoded, return_tensors="pt").to(self.device)
        with torch.no_grad():
            output = self.model.generate(
                **padded, num_beams=_BEAMS, forced_bos_token_id=self.target
            )
        texts = self.tokenizer.batch_decode(output, skip_special_tokens=True)
        return [{"translated": text} for text in texts]

    def _tokenize(self, body: dict[str, str]) -> Any:
        self.tokenizer.src_lang = body["src_lang"]
        return self.tokenizer(body["src_text"], truncation=True)
