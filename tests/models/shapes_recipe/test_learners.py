"""Learners: a stopped training resumes, an export answers as before, and the models that ship
are as good as their card says. Also the commands that evaluate and draw."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor
from typer.testing import CliRunner

from models import training
from models.shapes_recipe import __main__ as commands
from models.shapes_recipe.learners import LEARNERS, SHIPPED, Learner, ShapesTrainer
from models.shapes_recipe.samples import ShapesTask, draw_batch, held_out, held_out_at

#: Each model's minimum score, on the card's many pictures and on the few of these tests.
LEAST = dict.fromkeys(ShapesTask, 0.9) | {ShapesTask.CLASSIFICATION: 0.98}
CAPTIONING = ShapesTask.CAPTIONING


def make_trainer(folder: Path) -> ShapesTrainer:
    """Make a trainer with only four steps."""
    learner = LEARNERS[ShapesTask.CLASSIFICATION].make()
    learner.steps, learner.batch_size, learner.warmup_steps = 4, 4, 2
    return ShapesTrainer(learner, folder)


@pytest.mark.slow
def test_a_stopped_training_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    whole = make_trainer(tmp_path / "whole")
    whole.run(lambda _: None)
    monkeypatch.setattr(training, "_CHECKPOINT_EVERY_S", -1)
    monkeypatch.setattr(training, "_LOG_EVERY", 3)
    with pytest.raises(SystemExit):
        make_trainer(tmp_path / "stopped").run(sys.exit)
    resumed = make_trainer(tmp_path / "stopped")
    assert resumed.step == 2
    resumed.run(lambda _: None)
    assert resumed.step == whole.step == 4
    weights = resumed.learner.model.state_dict()
    for name, expected in whole.learner.model.state_dict().items():
        assert torch.equal(weights[name], expected), name


# RT-DETR's loss needs SciPy, which is installed only for training.
@pytest.mark.slow
@pytest.mark.parametrize("task", [CAPTIONING, ShapesTask.CLASSIFICATION])
def test_a_few_steps_on_the_same_pictures_lower_the_loss(task: ShapesTask):
    learner = LEARNERS[task].make()
    samples = draw_batch(task, 0, 4)
    optimizer = torch.optim.AdamW(learner.model.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = learner.measure_loss(samples)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("task", ShapesTask)
def test_what_is_exported_can_be_loaded_offline_and_gives_the_same(task, tmp_path):
    learner = LEARNERS[task].make()
    learner.model.eval()
    samples = draw_batch(task, 0, 3)
    learner.export(tmp_path)
    learner.model.float()
    loaded = LEARNERS[task].load(tmp_path)
    for expected, found in zip(
        learner.model.parameters(), loaded.model.parameters(), strict=True
    ):
        assert torch.equal(expected, found)
    assert loaded.judge(samples) == learner.judge(samples)
    size = AutoImageProcessor.from_pretrained(tmp_path, backend="pil").size
    saved = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert saved["size"] == {key: value for key, value in dict(size).items() if value}


@pytest.fixture(scope="module")
def shipped() -> dict[ShapesTask, Learner]:
    return {task: LEARNERS[task].load(SHIPPED / task) for task in ShapesTask}


@pytest.mark.slow
@pytest.mark.parametrize("task", ShapesTask)
def test_held_out_pictures_and_large_frames_are_answered_rightly(shipped, task):
    assert shipped[task].judge(list(held_out(task, 40, seed=2))) >= LEAST[task]
    large = list(held_out_at(task, 15, width=1920, height=1080, seed=2))
    assert shipped[task].judge(large) >= LEAST[task]


@pytest.mark.parametrize(
    ("options", "shape"), [([], None), (["--clip"], (270, 480, 3))]
)
def test_what_is_drawn_can_be_looked_at(options, shape, tmp_path):
    command = ["draw", "detection", "--out", str(tmp_path), "--count", "3", *options]
    assert CliRunner().invoke(commands.app, command).exit_code == 0
    drawn = [np.array(Image.open(path)) for path in sorted(tmp_path.iterdir())]
    for frame, sample in zip(drawn, held_out(ShapesTask.DETECTION, 3), strict=True):
        assert frame.shape == (shape or sample.picture.shape)
        assert shape or np.array_equal(frame, sample.picture)


@pytest.mark.slow
def test_the_models_that_ship_are_judged_and_their_card_written(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "_SIZED_ITEMS", 2)
    monkeypatch.setattr(commands, "_CLIP_FRAMES", 5)
    out = shutil.copytree(SHIPPED, tmp_path / "shapes")
    command = ["evaluate", "--out", str(out), "--items", "8"]
    done = CliRunner().invoke(commands.app, command)
    assert done.exit_code == 0, done.output
    assert "boxes (AP50)" in done.output
    card = (out / "README.md").read_text("utf-8")
    steps = json.loads((out / "captioning/training.json").read_text())["steps"]
    assert f"| Training, batches | {steps:,} of " in card
