"""Learners: a stopped training goes on, an export answers as before, and the models that ship
are as good as their card says.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoImageProcessor

from models.shapes_recipe.evaluation import SHIPPED
from models.shapes_recipe.learners import LEARNERS, Learner, ShapesTrainer
from models.shapes_recipe.samples import ShapesTask, draw_batch, held_out, held_out_at

pytestmark = pytest.mark.slow

#: Each model's least score, on the card's many pictures and on these few.
LEAST = {
    ShapesTask.CAPTIONING: 0.9,
    ShapesTask.CLASSIFICATION: 0.98,
    ShapesTask.DETECTION: 0.9,
}
CAPTIONING = ShapesTask.CAPTIONING


class StoppedError(Exception):
    """Somebody pressed Ctrl-C."""


def stop(_: str) -> None:
    raise StoppedError


def make_trainer(folder: Path) -> ShapesTrainer:
    """A short training."""
    learner = LEARNERS[ShapesTask.CLASSIFICATION].make()
    learner.recipe = replace(
        learner.recipe, steps=4, batch_size=4, warmup_steps=2, check_every=2, checked=4
    )
    return ShapesTrainer(learner, folder)


def test_a_stopped_training_goes_on_as_if_it_had_not_been(tmp_path: Path):
    whole = make_trainer(tmp_path / "whole")
    whole.run(lambda _: None)
    with pytest.raises(StoppedError):
        make_trainer(tmp_path / "stopped").run(stop)
    resumed = make_trainer(tmp_path / "stopped")
    assert resumed.step == 2
    resumed.run(lambda _: None)
    assert resumed.step == whole.step == 4
    weights = resumed.learner.model.state_dict()
    for name, expected in whole.learner.model.state_dict().items():
        assert torch.equal(weights[name], expected), name


# RT-DETR's loss needs SciPy, which only a training installs.
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


@pytest.mark.parametrize("task", ShapesTask)
def test_what_is_exported_can_be_loaded_offline_and_gives_the_same(
    task: ShapesTask, tmp_path: Path
):
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


def test_every_word_of_a_caption_is_one_token():
    learner = LEARNERS[CAPTIONING].make()
    tokenizer = learner.processor.tokenizer
    caption = "a small red ring left of a large purple triangle"
    tokens = tokenizer(caption, add_special_tokens=False)["input_ids"]
    assert len(tokens) == len(caption.split())
    assert tokenizer.decode(tokens) == caption
    assert tokenizer("")["input_ids"] == [tokenizer.eos_token_id]
    assert tokenizer.padding_side == "left"
    image = tokenizer.convert_tokens_to_ids("<image>")
    assert learner.model.config.image_token_index == image


@pytest.fixture(scope="module")
def shipped() -> dict[ShapesTask, Learner]:
    return {task: LEARNERS[task].load(SHIPPED / task) for task in ShapesTask}


@pytest.mark.parametrize("task", ShapesTask)
def test_held_out_pictures_and_large_frames_are_answered_rightly(shipped, task):
    assert shipped[task].judge(list(held_out(task, 40, seed=2))) >= LEAST[task]
    large = list(held_out_at(task, 15, width=1920, height=1080, seed=2))
    assert shipped[task].judge(large) >= LEAST[task]
