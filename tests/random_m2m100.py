"""M2M100s of any size with random weights, which the benchmarks use as well."""

from __future__ import annotations

from pathlib import Path

from transformers import M2M100Config

from benchmarks.instruments.random_model import build
from handlers.engine.translation.families.m2m100 import M2M100Tokenizer
from models.phrasebook_recipe.phrasebook import MODEL as PHRASEBOOK

__all__ = ["PHRASEBOOK", "build_tiny"]

_UNUSED_ROWS = 8


def build_tiny(directory: Path, *, positions: int) -> Path:
    """A model of two small layers with the phrasebook's vocabulary and this many positions."""
    config = M2M100Config(
        vocab_size=len(M2M100Tokenizer(PHRASEBOOK).ids) + _UNUSED_ROWS,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=positions,
    )
    return build(directory, config)
