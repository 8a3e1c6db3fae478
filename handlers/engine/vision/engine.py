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
from handlers.engine.vision.preprocessing import Picture, Preprocessor

Answer = TypeVar("Answer")


class VisionEngine:
    """Loads a Hugging Face directory: float32 on a CPU, float16 or bfloat16 on a GPU."""

    #: The class of Transformers that reads the directory.
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

    def prepare(self, frame: Frame) -> Picture:
        """A frame as the engine takes it: scaled to what the model reads."""
        return self._preprocessor.prepare(frame)

    def _infer(
        self,
        pictures: Sequence[Picture],
        compute: Callable[[list[int], torch.Tensor], Sequence[Answer]],
    ) -> list[Answer]:
        """One answer per picture, as `Preprocessor.run`. Raises OutOfMemory or DeviceFault."""
        return infer(lambda: self._preprocessor.run(pictures, compute))
