"""Writes the model card, `models/shapes/README.md`, from measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.shapes_recipe.evaluation import FRAME_SIZES, ShapesReport, TaskJudgement
from models.shapes_recipe.scenes import CLEAR_ANGLE, COLOURS, SHAPES, SIZES


@dataclass(frozen=True)
class Facts:
    """Facts from a model's files and its training."""

    cpu_minutes: float
    steps: int
    batch_size: int
    parameters: int
    megabytes: float
    #: A note on the training that the recipe does not have.
    note: str = ""


_CARD = Path(__file__).with_name("card.txt").read_text("utf-8")


def write_card(report: ShapesReport, facts: Sequence[Facts], machine: str) -> str:
    """The card's text; one of `facts` for captioning, classification and detection each."""
    return _CARD.format(
        shapes=", ".join(SHAPES),
        colours=", ".join(COLOURS),
        notes="\n".join(fact.note for fact in facts if fact.note),
        small=_span("small"),
        large=_span("large"),
        clear=math.degrees(CLEAR_ANGLE),
        labels=len(COLOURS) * len(SHAPES),
        parameters=_row(f"{fact.parameters / 1e6:.2f} M" for fact in facts),
        megabytes=_row(f"{fact.megabytes:.1f} MB" for fact in facts),
        batches=_row(f"{fact.steps:,} of {fact.batch_size}" for fact in facts),
        minutes=_row(f"{fact.cpu_minutes:.0f} minutes" for fact in facts),
        machine=machine,
        items=report.items,
        sizes=_row(f"{width} x {height}" for width, height in FRAME_SIZES),
        rules="---|" * len(FRAME_SIZES),
        captioning=_figures(report.captioning),
        classification=_figures(report.classification),
        detection=_figures(report.detection),
        clip_all=report.captioning.by_label["all"],
        clip_clear=report.captioning.by_label["clear"],
        by_label=", ".join(
            f"{label} {share:.1%}" for label, share in report.detection.by_label.items()
        ),
    )


def _figures(judgement: TaskJudgement) -> str:
    return _row(
        f"{share:.1%}" for share in (judgement.held_out, *judgement.by_size.values())
    )


def _span(word: str) -> str:
    """Return the share of the picture that figures of that size measure across."""
    least, most = SIZES[word]
    return f"{200 * least:.0f} to {200 * most:.0f} %"


def _row(cells: Iterable[str]) -> str:
    return " | ".join(cells)
