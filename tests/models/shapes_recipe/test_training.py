"""Learners that have learnt nothing yet: training goes on where it was stopped, and what
is exported answers as before.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoImageProcessor

from models.shapes_recipe.captioning import CaptioningLearner
from models.shapes_recipe.classification import ClassificationLearner
from models.shapes_recipe.detection import DetectionLearner
from models.shapes_recipe.samples import ShapesTask, draw_batch
from models.shapes_recipe.training import ShapesTrainer

pytestmark = pytest.mark.slow

ALL: list[Any] = [CaptioningLearner, ClassificationLearner, DetectionLearner]
#: RT-DETR's loss needs SciPy, which only a training installs.
TRAINED = ALL[:2]


class StoppedError(Exception):
    """Somebody pressed Ctrl-C."""


def stop(_: str) -> None:
    raise StoppedError


def make_short() -> ClassificationLearner:
    learner = ClassificationLearner.make()
    learner.recipe = replace(
        learner.recipe, steps=4, batch_size=4, warmup_steps=2, check_every=2, checked=4
    )
    return learner


def test_a_stopped_training_goes_on_as_if_it_had_not_been(tmp_path):
    whole = ShapesTrainer(make_short(), tmp_path / "whole")
    whole.run(lambda _: None)
    with pytest.raises(StoppedError):
        ShapesTrainer(make_short(), tmp_path / "stopped").run(stop)
    resumed = ShapesTrainer(make_short(), tmp_path / "stopped")
    assert resumed.step == 2
    resumed.run(lambda _: None)
    assert resumed.step == whole.step == 4
    weights = resumed.learner.model.state_dict()
    for name, expected in whole.learner.model.state_dict().items():
        assert torch.equal(weights[name], expected), name


@pytest.mark.parametrize("learner_class", TRAINED)
def test_a_few_steps_on_the_same_pictures_lower_the_loss(learner_class):
    learner = learner_class.make()
    samples = draw_batch(learner.task, 0, 4)
    optimizer = torch.optim.AdamW(learner.model.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = learner.measure_loss(samples)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("learner_class", ALL)
def test_what_is_exported_can_be_loaded_offline_and_gives_the_same(
    learner_class, tmp_path
):
    learner = learner_class.make()
    learner.model.eval()
    samples = draw_batch(learner.task, 0, 3)
    learner.export(tmp_path)
    learner.model.float()
    loaded = learner_class.load(tmp_path)
    for expected, found in zip(
        learner.model.parameters(), loaded.model.parameters(), strict=True
    ):
        assert torch.equal(expected, found)
    assert loaded.judge(samples) == learner.judge(samples)
    size = AutoImageProcessor.from_pretrained(tmp_path, backend="pil").size
    saved = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert saved["size"] == {key: value for key, value in dict(size).items() if value}


def test_every_word_of_a_caption_is_one_token(tmp_path):
    learner = CaptioningLearner.make()
    tokenizer = learner.processor.tokenizer
    caption = "a small red ring left of a large purple triangle"
    tokens = tokenizer(caption, add_special_tokens=False)["input_ids"]
    assert len(tokens) == len(caption.split())
    assert tokenizer.decode(tokens) == caption
    assert tokenizer("")["input_ids"] == [tokenizer.eos_token_id]
    assert tokenizer.padding_side == "left"
    image = tokenizer.convert_tokens_to_ids("<image>")
    assert learner.model.config.image_token_index == image


def test_queries_do_not_begin_all_the_same():
    queries = CaptioningLearner.make().model.query_tokens[0]
    assert not torch.allclose(queries[0], queries[1])


def test_no_batch_norm_of_the_detector_begins_near_zero():
    norms = [
        module
        for module in DetectionLearner.make().model.modules()
        if isinstance(module, torch.nn.BatchNorm2d)
    ]
    assert norms
    assert all(torch.all(norm.weight == 1) for norm in norms)


def test_the_tasks_of_learners_are_those_of_the_map():
    assert [learner.task for learner in ALL] == list(ShapesTask)
