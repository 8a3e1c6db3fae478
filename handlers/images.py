"""The base of all image tasks: reads the frames of rows and answers batches of images."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from handlers.base import (
    ModelConfig,
    Outcome,
    Row,
    TaskError,
    TaskHandler,
    digest_model,
)
from handlers.engine.errors import OutOfMemory, run_in_halves
from handlers.engine.vision.decoding import (
    Frame,
    ImageError,
    UnknownImageFormat,
    decode_frames,
)
from handlers.engine.vision.engine import Image, VisionEngine

Item = TypeVar("Item")

#: The image that warms up a model.
BLACK: Frame = np.zeros((64, 64, 3), np.uint8)


def read_frames(row: Row, max_pixels: int) -> list[Frame]:
    """The frames of a row, at least one. Raises TaskError."""
    body = row.body if isinstance(row.body, bytes | bytearray) else b""
    try:
        return decode_frames(body, max_pixels=max_pixels)
    except ImageError as error:
        detail = f"{str(error)[:1].upper()}{str(error)[1:]}."
        if isinstance(error, UnknownImageFormat):
            raise TaskError("unsupported-image", detail) from error
        raise TaskError("invalid-image", detail) from error


def read_frame(row: Row, max_pixels: int) -> Frame:
    """The only frame of a row. Raises TaskError, also if there are several."""
    frames = read_frames(row, max_pixels)
    if len(frames) > 1:
        detail = f"Expected one image, found {len(frames)} frames."
        raise TaskError("invalid-image", detail)
    return frames[0]


class ImageHandler(TaskHandler[Item]):
    """The base of handlers that run a Transformers model on images."""

    #: The Transformers class that reads the model's directory.
    kind: ClassVar[Any]

    @abstractmethod
    def compute(self, items: Sequence[Any]) -> Sequence[Any]:
        """The result of each item. Raises OutOfMemory or DeviceFault."""

    def load_model(self, config: ModelConfig) -> None:
        options = config.options
        if threads := options["threads"]:  # 0 is one per core
            torch.set_num_threads(threads)
        self.max_pixels: int = options["max_pixels"]
        self.digest = digest_model(config)
        self.engine = VisionEngine(
            self.kind,
            config.directory,
            gpu=config.gpu,
            compute_type=options["compute_type"],
        )

    def read_image(self, row: Row) -> Image:
        """The only image of a row, preprocessed. Raises TaskError."""
        return self.engine.preprocess(read_frame(row, self.max_pixels))

    def infer(self, items: Sequence[Item], deadline: float) -> Outcome:
        answers, halved = run_in_halves(self.compute, items)
        results = [no_memory() if isinstance(a, OutOfMemory) else a for a in answers]
        counts = {"BabelgateFrames": len(items), "BabelgateHalvedPacks": halved}
        return Outcome(results, counts)


def no_memory() -> TaskError:
    """Return the error for a row that does not fit into the device's memory, even alone."""
    return TaskError(
        "out-of-memory", "This does not fit into the device's memory, even alone."
    )
