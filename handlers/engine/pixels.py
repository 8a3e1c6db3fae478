"""Frames of any size in, the tensors that a vision model reads out, on its device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from transformers import AutoImageProcessor
from transformers.image_processing_backends import PilBackend

from handlers.engine.directories import read_input_size
from handlers.engine.images import Frame

Inputs = dict[str, torch.Tensor]
Answer = TypeVar("Answer")


class Preprocessor:
    """Does what a model directory's image processor says.

    The processor itself scales and crops, frame by frame. What it does with each pixel after
    that, if it is the usual, is done for all frames at once on the device, and a frame that
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
            (size.height, size.width, 3) if _only_scales(self.processor) else None
        )
        self._factor, self._shift = (
            part.to(device) for part in _read_colours(self.processor)
        )

    def run(
        self,
        frames: Sequence[Frame],
        compute: Callable[[list[int], Inputs], Sequence[Answer]],
    ) -> list[Answer]:
        """One answer per frame, in order. `compute` gets the places of some frames, and what
        the model's `forward` takes for them.

        Those are all frames, unless the model keeps the pictures' proportions: then they are
        those of one size. If they were padded, the padding would change the answers.
        """
        answers: dict[int, Answer] = {}
        for places, inputs in self._batch(frames):
            answers.update(zip(places, compute(places, inputs), strict=True))
        return [answers[place] for place in range(len(frames))]

    def _batch(self, frames: Sequence[Frame]) -> Iterator[tuple[list[int], Inputs]]:
        if not self._is_usual:
            yield list(range(len(frames))), self._process(frames)
            return
        scaled = [self._scale(frame) for frame in frames]
        groups: dict[tuple[int, ...], list[int]] = {}
        for place, frame in enumerate(scaled):
            groups.setdefault(frame.shape, []).append(place)
        for places in groups.values():
            yield places, self._colour(np.stack([scaled[place] for place in places]))

    def _process(self, frames: Sequence[Frame]) -> Inputs:
        features = self.processor(
            list(frames), input_data_format="channels_last", return_tensors="pt"
        )
        pixels = features.pop("pixel_values").to(self._device, self._dtype)
        others = {name: value.to(self._device) for name, value in features.items()}
        return {"pixel_values": pixels, **others}

    def _scale(self, frame: Frame) -> Frame:
        if frame.shape == self._shape:
            return frame
        (scaled,) = self.processor(
            frame,
            do_rescale=False,
            do_normalize=False,
            do_pad=False,
            input_data_format="channels_last",
        )["pixel_values"]
        return np.moveaxis(np.asarray(scaled), 0, -1)

    def _colour(self, frames: Frame) -> Inputs:
        pixels = torch.from_numpy(frames).to(self._device).permute(0, 3, 1, 2)
        values = torch.addcmul(self._shift, pixels, self._factor)
        return {"pixel_values": values.to(self._dtype)}


def _is_usual(processor: Any) -> bool:
    """Whether each pixel is multiplied and shifted, and only padded to the size of others
    after that."""
    kind = type(processor)
    return (
        kind.rescale is PilBackend.rescale
        and kind.normalize is PilBackend.normalize
        and not (processor.do_pad and processor.pad_size)
    )


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
