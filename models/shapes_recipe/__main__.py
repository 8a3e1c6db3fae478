"""`python -m models.shapes_recipe`: makes `models/shapes` from scratch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from PIL import Image

from models.shapes_recipe.evaluation import SHIPPED, write_card
from models.shapes_recipe.learners import LEARNERS, ShapesTrainer
from models.shapes_recipe.samples import ShapesTask, draw_clip, held_out
from models.training import Machine, Work, write_facts

app = typer.Typer(
    add_completion=False, help="Draw pictures, train and judge the models for them."
)

WORK = Path("run/shapes-training")
Out = Annotated[Path, typer.Option(help="Where the model directories are.")]


@app.command()
def train(task: ShapesTask, work: Work = WORK, out: Out = SHIPPED) -> None:
    """Train, or continue the last run, then export the model.

    Ctrl-C loses at most five minutes; the same command continues.
    """
    trainer = ShapesTrainer(LEARNERS[task].make(), work / task)
    trainer.run(typer.echo)
    learner = trainer.learner
    learner.export(out / task)
    write_facts(
        out / task,
        cpu_minutes=round(trainer.spent_s / 60, 1),
        steps=trainer.step,
        batch_size=learner.recipe.batch_size,
        parameters=sum(p.numel() for p in learner.model.parameters()),
    )


@app.command()
def evaluate(
    out: Out = SHIPPED,
    items: Annotated[int, typer.Option(help="Held-out pictures of each task.")] = 2000,
    machine: Machine = "",
) -> None:
    """Evaluate the three models and write their card."""
    right = write_card(out, items, machine or f"{os.cpu_count()} CPU cores")
    typer.echo(
        "captions {:.1%}, labels {:.1%}, boxes (AP50) {:.1%}".format(*right.values())
    )


@app.command()
def draw(
    task: ShapesTask,
    out: Annotated[Path, typer.Option(help="Folder for the PNG files.")],
    count: Annotated[int, typer.Option(help="How many pictures or frames.")] = 12,
    clip: Annotated[
        bool, typer.Option(help="The first frames of a film, 480 x 270.")
    ] = False,
) -> None:
    """Write held-out images, or the frames of a film, as PNG files."""
    out.mkdir(parents=True, exist_ok=True)
    frames = (
        (frame for _, frame in draw_clip(0, count, width=480, height=270))
        if clip
        else (sample.picture for sample in held_out(task, count))
    )
    for number, frame in enumerate(frames):
        Image.fromarray(frame).save(out / f"{number:04}.png")


if __name__ == "__main__":
    app()
