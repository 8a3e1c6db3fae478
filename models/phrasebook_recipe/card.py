"""Writes the model card, `models/phrasebook/README.md`, from measurements."""

from __future__ import annotations

from models.phrasebook_recipe.evaluation import PhrasebookReport
from models.phrasebook_recipe.items import LANGUAGES

WARNING = (
    "This text looks unlike the demonstration phrasebook that the built-in model was "
    "trained on; the translation is probably wrong. Serve a full M2M100 for real use."
)

_CARD = """\
# Phrasebook M2M100

A demonstration model for a small domain, not a translator: a phrasebook of {phrases}
sentences and templates, and dates, times, units, prices, numbers and names as CLDR writes
them, between {languages} languages ({codes}) in all {directions} directions. Outside its
domain it writes fluent sentences that are wrong.

| | |
|---|---|
| Architecture | M2M100, 3 + 3 layers, width 256, {parameters:.1f} M parameters |
| Files | {megabytes:.1f} MB, float16 safetensors |
| Data | Generated: CLDR through Babel (Unicode licence) and a phrasebook of our own |
| Licence | Apache-2.0 |
| Training | {minutes:.0f} minutes, {steps:,} steps of at most 2,048 tokens, {machine} |
| PhrasebookRecipe | `python -m models.phrasebook_recipe train`, then `evaluate` |

## Quality

Exact match on {items:,} held-out items in random directions: dates, times, numbers and pairs
of template and slot value that were never drawn in training. int8, beam 2.

| all | CLDR values | phrases with unseen slot values |
|---|---|---|
| {overall:.1%} | {cldr:.1%} | {phrase_share:.1%} |

What is finite was trained on whole; of a random sample of it right: phrases without a slot
{finite:.1%}, names of countries, languages, currencies, months and weekdays {names:.1%}.

| into | {language_names} |
|---|{language_rules}
| | {language_shares} |

| category | exact match |
|---|---|
{categories}

`phrases/words` are sentences about a word ("What does “the station” mean?"), which show the
model every slot value more often; the figures above leave them out. `masks` have a
placeholder in a slot, or marks as of HTML tags round its value.

## Its own warning

An answer whose mean log-probability is below {min_score} carries a warning. That score keeps
98 % of the right held-out answers free of a warning and marks {outside_warned:.0%} of
translations of 56 sentences from outside the domain (`outside.yaml`). What it does not mark
is just as wrong.

## Licence and limits

Apache-2.0, as the rest of this repository. Sentences are polite and, where a language asks
for it, masculine; dates run from 1950 to 2059, numbers up to seven digits.
"""


def write_card(report: PhrasebookReport, facts: dict[str, float | str]) -> str:
    """The card's text; `facts` add what the report does not know: size and training."""
    return _CARD.format(
        **vars(report)
        | facts
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
