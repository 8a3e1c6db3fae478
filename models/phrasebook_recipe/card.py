"""Writes the model card, `models/phrasebook/README.md`, from measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.phrasebook_recipe.evaluation import PhrasebookReport
from models.phrasebook_recipe.items import LANGUAGES

WARNING = (
    "This text looks unlike the demonstration phrasebook that the built-in model was "
    "trained on; the translation is probably wrong. Serve a full M2M100 for real use."
)

_CARD = Path(__file__).with_name("card.txt").read_text("utf-8")


def write_card(report: PhrasebookReport, facts: Mapping[str, Any]) -> str:
    """The card's text; `facts` add what the report does not know: size and training."""
    return _CARD.format(
        **vars(report)
        | dict(facts)
        | {
            "phrase_share": report.phrases,
            "languages": len(LANGUAGES),
            "codes": " ".join(LANGUAGES),
            "directions": len(LANGUAGES) * (len(LANGUAGES) - 1),
            "language_names": " | ".join(report.by_language),
            "language_rules": "---|" * len(report.by_language),
            "language_shares": " | ".join(
                f"{share:.0%}" for share in report.by_language.values()
            ),
            "categories": "\n".join(
                f"| {name} | {share:.1%} |"
                for name, share in report.by_category.items()
            ),
        }
    )
