"""Writes the model card, `models/shapes/README.md`, from measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.shapes_recipe.evaluation import FRAME_SIZES, TaskJudgement, ShapesReport
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


_CARD = """\
# Shapes: BLIP-2, ResNet, RT-DETR

Demonstration models with the real architectures and tiny configurations. They know one
world: plain whole shapes ({shapes})
in a few colours ({colours})
on dark grey backgrounds, and people drawn of lines and a circle. Shown a photograph they
answer in the same words, surely and wrongly.

| | captioning | classification | detection |
|---|---|---|---|
| Architecture | BLIP-2 (ViT, Q-Former, OPT) | ResNet | RT-DETR |
| Input | 64 x 64, squashed | 64 x 64, the middle | 128 x 128, squashed |
| Parameters | {parameters} |
| Files, float16 safetensors | {megabytes} |
| Training, batches | {batches} |
| Training, CPU time | {minutes} |

| | |
|---|---|
| Data | Drawn as training goes, by `models/shapes_recipe`; no picture is shown twice |
| Trained on | {machine} |
| Licence | Apache-2.0 |
| LearningPlan | `python -m models.shapes_recipe train TASK` for the three tasks, then `evaluate` |

Training RT-DETR needs SciPy, which nothing else here does.
{notes}

## What they say

- **Captions** are of a closed grammar: "a small red ring", or two figures as in "a large
  white cross left of a small blue square". The left one comes first, or the upper one with
  "above". Small figures measure {small} of the picture's shorter side, large
  ones {large}. Two figures are about the middle of the picture, and the way between
  them is at most {clear:.0f} degrees from level or upright, after the picture is squashed
  to a square.
- **Labels** are a colour and a shape, {labels} of them; one figure near the middle.
- **Boxes** are round a shape or a person; one to six that do not overlap.

## Quality

On {items:,} held-out pictures for each task, drawn from other seeds: from 9:16 to 16:9, with
noise, some blurred, some through JPEG. The columns at the right have 200 undisturbed
pictures each, scaled by the models' own image processors. float32 on a CPU.

| | measure | held out | {sizes} |
|---|---|---|{rules}
| captioning | exact match | {captioning} |
| classification | accuracy | {classification} |
| detection | AP50 | {detection} |

A film has 901 frames (480 x 270, shots of 90 frames; figures turn round each other, so that
"left of" becomes "above"). {clip_all:.1%} have exactly the right caption, and
{clip_clear:.1%} where no figure is near a diagonal.

AP50 is the average precision at an overlap of 0.5 with all points interpolated, the mean
over the labels: {by_label}.

## Limits

Other colours, overlapping or cut-off figures, bright backgrounds, three figures in a
caption: never drawn, so not known. An empty picture gets a caption and a label, too. The
captions are as easy to check as they are to learn; nothing here says how well a full BLIP-2
describes a photograph. Any BLIP-2, ResNet or RT-DETR directory can take the place of these.
"""


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
    """How much figures of that size measure across."""
    least, most = SIZES[word]
    return f"{200 * least:.0f} to {200 * most:.0f} %"


def _row(cells: Iterable[str]) -> str:
    return " | ".join(cells)
