"""The base of all engines for images: a Transformers model and its preprocessing, on a
device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch

from handlers.engine.inference import choose_device, infer, load_model
from handlers.engine.vision.decoding import Frame
from handlers.engine.vision.preprocessing import Image, Preprocessor

Answer = TypeVar("Answer")


class VisionEngine:
    """Loads a Hugging Face directory: float32 on a CPU, float16 or bfloat16 on a GPU."""

    #: The Transformers class that reads the directory.
    kind: ClassVar[Any]

    def __init__(
        self,
        directory: Path,
        *,
        device: str = "cpu",
        index: int = 0,
        compute_type: str = "float32",
    ) -> None:
        place = choose_device(device, index)
        dtype = getattr(torch, compute_type)
        self._model = load_model(self.kind, directory, device=place, dtype=dtype)
        self._preprocessor = Preprocessor(directory, device=place, dtype=dtype)

    def preprocess(self, frame: Frame) -> Image:
        """A frame scaled to the size that the model reads."""
        return self._preprocessor.preprocess(frame)

    def _infer(
        self,
        images: Sequence[Image],
        compute: Callable[[list[int], torch.Tensor], Sequence[Answer]],
    ) -> list[Answer]:
        """One answer per image, in order. Raises OutOfMemory or DeviceFault."""
        return infer(lambda: self._preprocessor.map_batches(images, compute))
