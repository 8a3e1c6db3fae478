"""Scales frames of any size into the tensors that a vision model reads, on its device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoImageProcessor
from transformers.image_processing_backends import PilBackend

from handlers.engine.directories import read_input_size
from handlers.engine.vision.decoding import Frame

Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Picture:
    """A frame that is scaled to what a model reads, so that a batch of them is small."""

    #: Colours in (height, width, channel), or what the model reads in (channel, height,
    #: width).
    pixels: NDArray[np.uint8] | NDArray[np.float32]
    #: As the frame came.
    height: int
    width: int


class Preprocessor:
    """Does what a model directory's image processor says.

    The processor itself scales and crops, frame by frame. What it does with each pixel after
    that, if it is the usual, is done for all pictures at once on the device, and a frame that
    has the right size already is not given to it at all.
    """

    def __init__(
        self, directory: Path, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.processor = AutoImageProcessor.from_pretrained(
            directory, backend="pil", local_files_only=True
        )
        self._device, self._dtype = device, dtype
        self._is_usual = _is_usual(self.processor)
        size = read_input_size(directory)
        #: Frames of this shape need no scaling.
        self._shape = (
            (size.height, size.width, 3)
            if self._is_usual and _only_scales(self.processor)
            else None
        )
        self._factor, self._shift = (
            part.to(device) for part in _read_colours(self.processor)
        )

    def prepare(self, frame: Frame) -> Picture:
        """The frame as the model reads it, still on the CPU."""
        height, width, _ = frame.shape
        if frame.shape == self._shape:
            return Picture(frame, height, width)
        # Pictures are not padded to the size of others: see `run`.
        options = {"input_data_format": "channels_last", "do_pad": False}
        if self._is_usual:
            options |= {"do_rescale": False, "do_normalize": False}
        pixels = np.asarray(self.processor(frame, **options)["pixel_values"][0])
        if self._is_usual:
            pixels = np.moveaxis(pixels, 0, -1)
        return Picture(pixels, height, width)

    def run(
        self,
        pictures: Sequence[Picture],
        compute: Callable[[list[int], torch.Tensor], Sequence[Answer]],
    ) -> list[Answer]:
        """One answer per picture, in order. `compute` gets the places of some pictures, and
        their pixels on the device.

        Those are all pictures, unless the model keeps their proportions: then they are those
        of one size. If they were padded, the padding would change the answers.
        """
        sizes: dict[tuple[int, ...], list[int]] = {}
        for place, picture in enumerate(pictures):
            sizes.setdefault(picture.pixels.shape, []).append(place)
        answers: dict[int, Answer] = {}
        for places in sizes.values():
            pixels = np.stack([pictures[place].pixels for place in places])
            answers.update(
                zip(places, compute(places, self._read(pixels)), strict=True)
            )
        return [answers[place] for place in range(len(pictures))]

    def _read(self, pixels: NDArray[Any]) -> torch.Tensor:
        values = torch.from_numpy(pixels).to(self._device)
        if self._is_usual:
            values = values.permute(0, 3, 1, 2)
            values = torch.addcmul(self._shift, values, self._factor)
        return values.to(self._dtype)


def _is_usual(processor: Any) -> bool:
    """Whether each pixel is only multiplied and shifted."""
    kind = type(processor)
    return kind.rescale is PilBackend.rescale and kind.normalize is PilBackend.normalize


def _only_scales(processor: Any) -> bool:
    """Whether every picture is brought to one height and width, and not cropped."""
    size = processor.size
    return bool(size and size.get("height") and not processor.do_center_crop)


def _read_colours(processor: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """By what a colour is multiplied, and what is added to it."""
    factor = processor.rescale_factor if processor.do_rescale else 1.0
    mean, deviation = 0.0, 1.0
    if processor.do_normalize:
        mean, deviation = processor.image_mean, processor.image_std
    means, deviations = (
        torch.tensor(value, dtype=torch.float32).reshape(-1, 1, 1)
        for value in (mean, deviation)
    )
    return factor / deviations, -means / deviations
