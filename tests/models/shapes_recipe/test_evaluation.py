"""The figures of the shapes' card, and the commands that draw and judge."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from models.shapes_recipe import evaluation
from models.shapes_recipe.__main__ import app
from models.shapes_recipe.evaluation import SHIPPED
from models.shapes_recipe.samples import ShapesTask, held_out


def draw(out: Path, *options: str) -> list[Any]:
    command = ["draw", "detection", "--out", str(out), "--count", "3", *options]
    assert CliRunner().invoke(app, command).exit_code == 0
    return [np.array(Image.open(path)) for path in sorted(out.iterdir())]


def test_what_is_drawn_can_be_looked_at(tmp_path: Path):
    drawn = draw(tmp_path / "pictures")
    for frame, sample in zip(drawn, held_out(ShapesTask.DETECTION, 3), strict=True):
        np.testing.assert_array_equal(frame, sample.picture)
    clip = draw(tmp_path / "clip", "--clip")
    assert [frame.shape for frame in clip] == [(270, 480, 3)] * 3


@pytest.mark.slow
def test_the_models_that_ship_are_judged_and_their_card_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(evaluation, "_SIZED_ITEMS", 2)
    monkeypatch.setattr(evaluation, "_CLIP_FRAMES", 5)
    out = shutil.copytree(SHIPPED, tmp_path / "shapes")
    done = CliRunner().invoke(app, ["evaluate", "--out", str(out), "--items", "8"])
    assert done.exit_code == 0, done.output
    assert "boxes (AP50)" in done.output
    card = (out / "README.md").read_text("utf-8")
    steps = json.loads((out / "captioning/training.json").read_text())["steps"]
    assert f"| Training, batches | {steps:,} of " in card
