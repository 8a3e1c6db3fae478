"""Boxes for the objects on images, over each row's own threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from handlers.detection import DetectionHandler
from tests.handlers.encoding import write_image
from tests.handlers.fakes import ask, ask_one
from tests.handlers.test_vision import start
from tests.random_vision import LABELS, draw_frames

pytestmark = pytest.mark.usefixtures("one_thread")

WIDTH, HEIGHT = 90, 50
BODY = write_image(draw_frames(1, height=HEIGHT, width=WIDTH)[0])


@pytest.fixture(scope="module")
def handler(rt_detr: Path) -> Any:
    return start("detection", rt_detr)


def test_objects_have_boxes_in_pixels_of_the_image(handler: DetectionHandler):
    (answer,) = ask(handler, [BODY], parameters={0: {"threshold": "0"}})
    content = answer.content
    assert (content["width"], content["height"]) == (WIDTH, HEIGHT)
    assert len(content["objects"]) > 3
    scores = [found["score"] for found in content["objects"]]
    assert scores == sorted(scores, reverse=True)
    for found in content["objects"]:
        assert found["label"] in LABELS
        assert found["score"] == round(found["score"], 4)
        box = found["box"]
        assert list(box) == ["left", "top", "right", "bottom"]
        assert 0 <= box["left"] <= box["right"] <= WIDTH
        assert 0 <= box["top"] <= box["bottom"] <= HEIGHT
        assert all(side == round(side, 1) for side in box.values())


def test_each_row_has_its_threshold(handler: DetectionHandler):
    (answer,) = ask(handler, [BODY], parameters={0: {"threshold": "0"}})
    scores = [found["score"] for found in answer.content["objects"]]
    middle = (scores[3] + scores[4]) / 2
    wanted = {1: {"threshold": str(middle)}, 2: {"threshold": "1"}}
    usual, some, nothing = ask(handler, [BODY] * 3, parameters=wanted)
    assert len(usual.content["objects"]) == sum(score > 0.5 for score in scores)
    assert len(some.content["objects"]) == 4
    assert nothing.content == {"objects": [], "width": WIDTH, "height": HEIGHT}


def test_an_image_on_its_side_has_the_boxes_of_the_upright_one(
    handler: DetectionHandler,
):
    """As cameras write it, and as everybody sees it."""
    (frame,) = draw_frames(1, height=HEIGHT, width=WIDTH)
    exif = Image.Exif()
    exif[0x0112] = 6
    lying = Image.fromarray(frame).transpose(Image.Transpose.ROTATE_90)
    answer = ask_one(handler, write_image(lying, exif=exif.tobytes()))
    assert answer.content == ask_one(handler, BODY).content
