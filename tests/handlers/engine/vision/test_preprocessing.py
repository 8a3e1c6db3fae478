"""The input of a vision model, compared with the output of its image processor."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoImageProcessor
from transformers.models.efficientnet.image_processing_pil_efficientnet import (
    EfficientNetImageProcessorPil,
)
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from handlers.engine.vision.decoding import Frame
from handlers.engine.vision.engine import Image, VisionEngine
from tests.handlers.conftest import FindModel
from tests.random_vision import SIDE, draw_frames

#: Sizes, some of which look like an image's number of channels.
SIZES = [
    (SIDE, SIDE), (48, 100), (100, 48), (3, 3),
    (1, 1), (3, 100), (100, 3), (1, 64),
]  # fmt: skip
FRAMES = [
    frame
    for height, width in SIZES
    for frame in draw_frames(2, height=height, width=width)
]
#: A model without weights, as these tests use only the processor.
NO_MODEL = SimpleNamespace(from_pretrained=lambda *_, **__: torch.nn.Identity())


def make(directory: Path, compute_type: str = "float32") -> VisionEngine:
    return VisionEngine(NO_MODEL, directory, compute_type=compute_type)


def read(engine: VisionEngine, frames: Sequence[Frame]) -> list[torch.Tensor]:
    """The pixels of each frame as passed to the model."""
    images = [(engine.preprocess(frame), None) for frame in frames]
    return engine.infer(images, lambda _, pixels: list(pixels))


def expect(directory: Path, frame: Frame) -> torch.Tensor:
    """The pixels that Transformers makes of a single frame."""
    processor = AutoImageProcessor.from_pretrained(directory, backend="pil")
    features = processor(frame, input_data_format="channels_last", return_tensors="pt")
    pixels: torch.Tensor = features["pixel_values"][0]
    return pixels


def test_pixels_are_in_the_models_precision(find_model: FindModel):
    (pixels,) = read(make(find_model("blip2"), "bfloat16"), FRAMES[:1])
    assert pixels.dtype == torch.bfloat16


SMALL, LARGER = ({"height": side, "width": side} for side in (32, 40))


@pytest.mark.parametrize(
    "processor",
    [
        EfficientNetImageProcessorPil(size={"height": 32, "width": 40}),
        ViTImageProcessorPil(size=LARGER, crop_size=SMALL, do_center_crop=True),
        ViTImageProcessorPil(size=SMALL, do_rescale=False, do_normalize=False),
        ViTImageProcessorPil(size=SMALL, image_mean=0.3, image_std=0.2),
    ],
    ids=["a computation of its own", "cropped", "as it came", "one mean for all"],
)
def test_other_processors_are_followed_as_well(processor, tmp_path):
    processor.save_pretrained(tmp_path)
    frames = [*FRAMES, *draw_frames(2, height=32, width=32)]
    for frame, pixels in zip(frames, read(make(tmp_path), frames), strict=True):
        expected = expect(tmp_path, frame).float()
        torch.testing.assert_close(pixels.float(), expected, atol=1e-5, rtol=1e-5)


def test_a_frame_of_the_models_size_is_not_touched(find_model: FindModel):
    engine = make(find_model("blip2"))
    (frame,) = draw_frames(1)
    frame.flags.writeable = False  # like a frame from a request
    assert engine.preprocess(frame).pixels is frame
    assert len(read(engine, [frame])) == 1


def test_a_large_frame_is_kept_small_and_its_size_is_remembered(find_model):
    engine = make(find_model("rt-detr"))
    image = engine.preprocess(np.zeros((500, 400, 3), np.uint8))
    assert image.pixels.nbytes == SIDE * SIDE * 3
    assert (image.height, image.width) == (500, 400)


def test_images_of_one_size_go_to_the_model_together(find_model: FindModel):
    engine = make(find_model("detr"))
    sizes = [(48, 60), (60, 48), (96, 120)]
    frames = [f for h, w in sizes for f in draw_frames(1, height=h, width=w)]
    batches: list[tuple[list[int], tuple[int, ...]]] = []

    def compute(items: Sequence[tuple[Image, int]], pixels: torch.Tensor) -> list[int]:
        places = [place for _, place in items]
        batches.append((places, tuple(pixels.shape)))
        return places

    images = [(engine.preprocess(frame), n) for n, frame in enumerate(frames)]
    assert engine.infer(images, compute) == [0, 1, 2]
    assert batches == [([0, 2], (2, 3, 48, 60)), ([1], (1, 3, 60, 48))]
