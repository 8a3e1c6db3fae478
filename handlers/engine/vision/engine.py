"""The engine of all image tasks: a Transformers model and the tensors of its input."""

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
    """A frame scaled to a model's input size, so that batches are small."""

    #: Colours in (height, width, channel), or the model's input in (channel, height, width).
    pixels: NDArray[np.uint8] | NDArray[np.float32]
    #: The size of the original frame.
    height: int
    width: int


class VisionEngine:
    """A model from a Hugging Face directory, which the Transformers class `kind` loads: float32
    on a CPU, float16 or bfloat16 on a GPU.

    The image processor scales and crops each frame. If it then only multiplies and shifts
    each pixel, as usual, the device does that for all images at once, and a frame that already
    has the right size skips the processor.
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
        # Parts that Transformers loads in another precision keep it, such as BLIP-2's Q-Former.
        # Pickled weights are not read.
        model = kind.from_pretrained(
            directory, dtype=self._dtype, local_files_only=True, use_safetensors=True
        )
        self.model = model.to(self._device).eval()

    def preprocess(self, frame: Frame) -> Image:
        """Scale a frame to the model's input size, on the CPU."""
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
        """Return one answer per item, in order. `compute` gets items whose images have the same
        size, with their pixels on the device: a model that preserves aspect ratios gets a batch
        per size, because padding would change answers. Raises OutOfMemory or DeviceFault."""

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
    """The factor and the offset of each colour."""
    factor = processor.rescale_factor if processor.do_rescale else 1.0
    mean, deviation = 0.0, 1.0
    if processor.do_normalize:
        mean, deviation = processor.image_mean, processor.image_std
    means, deviations = (
        torch.tensor(value, dtype=torch.float32).reshape(-1, 1, 1)
        for value in (mean, deviation)
    )
    return factor / deviations, -means / deviations
