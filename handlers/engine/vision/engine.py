"""The base of all engines for images: a Transformers model and the tensors that it reads."""

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
from handlers.engine.errors import run_in_groups
from handlers.engine.inference import choose_device, infer
from handlers.engine.vision.decoding import Frame

Answer = TypeVar("Answer")
Option = TypeVar("Option")


@dataclass(frozen=True, eq=False)
class Image:
    """A frame scaled to the size that a model reads, so that batches are small."""

    #: Colours in (height, width, channel), or the model's input in (channel, height, width).
    pixels: NDArray[np.uint8] | NDArray[np.float32]
    #: The size of the original frame.
    height: int
    width: int


class VisionEngine:
    """Loads a Hugging Face directory: float32 on a CPU, float16 or bfloat16 on a GPU. `kind`
    is the Transformers class that reads it.

    The image processor scales and crops each frame. If it then only multiplies and shifts
    each pixel, as usual, that is done for all images at once on the device, and a frame that
    already has the right size skips the processor.
    """

    def __init__(
        self, kind: Any, directory: Path, *, gpu: int | None = None, compute_type: str
    ) -> None:
        self._device = choose_device(gpu)
        self._dtype = getattr(torch, compute_type)
        self.processor = AutoImageProcessor.from_pretrained(
            directory, backend="pil", local_files_only=True
        )
        self._is_usual = _is_usual(self.processor)
        has_size = bool(self.processor.size and self.processor.size.get("height"))
        is_scaled = self._is_usual and has_size and not self.processor.do_center_crop
        #: Frames of this shape need no scaling.
        self._shape = (*read_input_size(directory), 3) if is_scaled else None
        self._factor, self._shift = (
            part.to(self._device) for part in _read_colours(self.processor)
        )
        # Parts that Transformers has loaded in another precision, as BLIP-2's Q-Former, keep
        # theirs. Weights that are pickled are not read.
        model = kind.from_pretrained(
            directory, dtype=self._dtype, local_files_only=True, use_safetensors=True
        )
        self.model = model.to(self._device).eval()

    def preprocess(self, frame: Frame) -> Image:
        """The frame scaled to the model's size, on the CPU."""
        height, width, _ = frame.shape
        if frame.shape == self._shape:
            return Image(frame, height, width)
        # Images are not padded to other images' sizes: see `infer`.
        options = {"input_data_format": "channels_last", "do_pad": False}
        if self._is_usual:
            options |= {"do_rescale": False, "do_normalize": False}
        pixels = np.asarray(self.processor(frame, **options)["pixel_values"][0])
        if self._is_usual:
            pixels = np.moveaxis(pixels, 0, -1)
        return Image(pixels, height, width)

    def infer(
        self,
        items: Sequence[tuple[Image, Option]],
        compute: Callable[
            [Sequence[tuple[Image, Option]], torch.Tensor], Sequence[Answer]
        ],
    ) -> list[Answer]:
        """One answer per item, in order. `compute` gets those whose images have one size, and
        their pixels on the device. Raises OutOfMemory or DeviceFault.

        A model that keeps the proportions of images gets a batch for each size, because
        padding would change the answers.
        """

        def run(some: Sequence[tuple[Image, Option]]) -> Sequence[Answer]:
            pixels = np.stack([image.pixels for image, _ in some])
            return compute(some, self._read_pixels(pixels))

        return infer(lambda: run_in_groups(run, items, lambda it: it[0].pixels.shape))

    def _read_pixels(self, pixels: NDArray[Any]) -> torch.Tensor:
        values = torch.from_numpy(pixels).to(self._device)
        if self._is_usual:
            values = values.permute(0, 3, 1, 2)
            values = torch.addcmul(self._shift, values, self._factor)
        return values.to(self._dtype)


def _is_usual(processor: Any) -> bool:
    """Whether the processor only multiplies and shifts each pixel."""
    kind = type(processor)
    return kind.rescale is PilBackend.rescale and kind.normalize is PilBackend.normalize


def _read_colours(processor: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The factor of each colour, and what is added to it."""
    factor = processor.rescale_factor if processor.do_rescale else 1.0
    mean, deviation = 0.0, 1.0
    if processor.do_normalize:
        mean, deviation = processor.image_mean, processor.image_std
    means, deviations = (
        torch.tensor(value, dtype=torch.float32).reshape(-1, 1, 1)
        for value in (mean, deviation)
    )
    return factor / deviations, -means / deviations
