"""M2M100s of any size with random weights, which the benchmarks use as well."""

from __future__ import annotations

from pathlib import Path

from transformers import M2M100Config

from benchmarks.instruments.random_model import build
from handlers.engine.translation.families.m2m100 import M2M100Tokenizer
from models.phrasebook_recipe.phrasebook import MODEL as PHRASEBOOK

__all__ = ["PHRASEBOOK", "build_tiny"]

_UNUSED_ROWS = 8
#: Much smaller insides than those of a real size.
SMALL = {"d_model": 32} | {
    f"{side}_{part}": size
    for side in ("encoder", "decoder")
    for part, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 32))
}


def build_tiny(directory: Path, *, positions: int) -> Path:
    """A model of two small layers with the phrasebook's vocabulary and this many positions."""
    config = M2M100Config(
        vocab_size=len(M2M100Tokenizer(PHRASEBOOK).ids) + _UNUSED_ROWS,
        max_position_embeddings=positions,
        **SMALL,
    )
    return build(directory, config)
