"""M2M100s of any size with random weights, which the benchmarks use as well."""

from __future__ import annotations

from benchmarks.random_model import build
from models.phrasebook_recipe.phrasebook import MODEL as PHRASEBOOK

__all__ = ["PHRASEBOOK", "build"]
