"""`python -m models.shapes_recipe`: makes `models/shapes` from scratch."""

import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from PIL import Image

from models.shapes_recipe import samples
from models.shapes_recipe.learners import LEARNERS, SHIPPED, ShapesTrainer
from models.shapes_recipe.samples import ShapesTask
from models.shapes_recipe.scenes import COLOURS, SHAPES, SIZES, is_clear
from models.training import Machine, Work, read_facts, write_card, write_facts

app = typer.Typer(
    add_completion=False, help="Draw pictures, train and evaluate the models for them."
)

WORK = Path("run/shapes-training")
#: The widths and heights of unscaled frames in the evaluation.
_FRAME_SIZES = ((480, 270), (1920, 1080))
_CLIP_FRAMES = 901
_CLIP_SEED = 7
_SIZED_ITEMS = 200
_CARD = Path(__file__).with_name("card.txt")
Out = Annotated[Path, typer.Option(help="The folder of the model directories.")]


@app.command()
def train(task: ShapesTask, work: Work = WORK, out: Out = SHIPPED) -> None:
    """Train, or continue the last run, then export the model.

    Ctrl-C loses at most five minutes; the same command resumes.
    """
    trainer = ShapesTrainer(LEARNERS[task].make(), work / task)
    trainer.run(typer.echo)
    learner = trainer.learner
    learner.export(out / task)
    write_facts(
        out / task,
        cpu_minutes=round(trainer.spent_s / 60, 1),
        steps=trainer.step,
        batch_size=learner.batch_size,
        parameters=sum(p.numel() for p in learner.model.parameters()),
    )


@app.command()
def evaluate(
    out: Out = SHIPPED,
    items: Annotated[int, typer.Option(help="Held-out pictures per task.")] = 2000,
    machine: Machine = "",
) -> None:
    """Evaluate the three models and write their card."""
    learners = {task: LEARNERS[task].load(out / task) for task in ShapesTask}
    measured = {
        task: learner.measure(list(samples.held_out(task, items)))
        for task, learner in learners.items()
    }
    right = {task: statistics.mean(each.values()) for task, each in measured.items()}
    clip = list(samples.draw_clip(_CLIP_SEED, _CLIP_FRAMES, width=480, height=270))
    clear = [sample for sample in clip if is_clear(sample.scene)]
    captioner = learners[ShapesTask.CAPTIONING]

    def judge_all(task: ShapesTask) -> Iterator[float]:
        yield right[task]
        for width, height in _FRAME_SIZES:
            drawn = samples.held_out_at(task, _SIZED_ITEMS, width=width, height=height)
            yield learners[task].judge(list(drawn))

    figures = {
        "shapes": SHAPES,
        "colours": COLOURS,
        "sizes": SIZES,
        "facts": [read_facts(out / task) for task in ShapesTask],
        "machine": machine or f"{os.cpu_count()} CPU cores",
        "items": items,
        "frame_sizes": _FRAME_SIZES,
        "scores": {task.value: [*judge_all(task)] for task in ShapesTask},
        "clip_all": captioner.judge(clip),
        "clip_clear": captioner.judge(clear),
        "by_label": measured[ShapesTask.DETECTION],
    }
    write_card(_CARD, out, figures)
    typer.echo(
        "captions {:.1%}, labels {:.1%}, boxes (AP50) {:.1%}".format(*right.values())
    )


@app.command()
def draw(
    task: ShapesTask,
    out: Annotated[Path, typer.Option(help="Folder for the PNG files.")],
    count: Annotated[int, typer.Option(help="Number of pictures or frames.")] = 12,
    clip: Annotated[
        bool, typer.Option(help="Draw the first frames of a film, 480 x 270.")
    ] = False,
) -> None:
    """Write held-out images, or the frames of a film, as PNG files."""
    out.mkdir(parents=True, exist_ok=True)
    drawn = samples.held_out(task, count)
    if clip:
        drawn = samples.draw_clip(0, count, width=480, height=270)
    for number, sample in enumerate(drawn):
        Image.fromarray(sample.picture).save(out / f"{number:04}.png")


if __name__ == "__main__":
    app()
