"""Reads a row's frames for the tasks that take images, and answers batches of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import numpy as np
import torch

from handlers.base import ModelConfig, Outcome, Result, Row, TaskError
from handlers.engine.errors import OutOfMemory, run_in_halves
from handlers.engine.vision.decoding import (
    Frame,
    ImageError,
    UnknownImageFormat,
    decode_frames,
)
from handlers.engine.vision.engine import VisionEngine

Engine = TypeVar("Engine", bound=VisionEngine)
Item = TypeVar("Item")
Answer = TypeVar("Answer")

#: Warms a model up.
BLACK: Frame = np.zeros((64, 64, 3), np.uint8)


def place_engine(kind: type[Engine], config: ModelConfig, **options: Any) -> Engine:
    """A task's engine, with the device and threads that the map gives it."""
    if threads := config.options["threads"]:  # 0 is one per core
        torch.set_num_threads(threads)
    return kind(
        config.directory,
        device=config.device,
        index=config.device_index,
        compute_type=config.options["compute_type"],
        **options,
    )


def read_frames(row: Row, max_pixels: int) -> list[Frame]:
    """The frames of a row, at least one. Raises TaskError."""
    body = row.body if isinstance(row.body, bytes | bytearray) else b""
    try:
        return decode_frames(body, max_pixels=max_pixels)
    except ImageError as error:
        detail = f"{str(error)[:1].upper()}{str(error)[1:]}."
        if isinstance(error, UnknownImageFormat):
            status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
            raise TaskError(status, "unsupported-image", detail) from error
        raise _invalid_image(detail) from error


def read_frame(row: Row, max_pixels: int) -> Frame:
    """The one frame of a row. Raises TaskError."""
    frames = read_frames(row, max_pixels)
    if len(frames) > 1:
        raise _invalid_image(f"Expected one image, found {len(frames)} frames.")
    return frames[0]


def answer_images(
    run: Callable[[Sequence[Item]], Sequence[Answer]],
    items: Sequence[Item],
    describe: Callable[[Item, Answer], Result],
) -> Outcome:
    """Run a batch of one image per row, and describe each answer."""
    answers, halved = run_in_halves(run, items)
    results = [
        no_memory() if isinstance(answer, OutOfMemory) else describe(item, answer)
        for item, answer in zip(items, answers, strict=True)
    ]
    return Outcome(
        results, {"BabelgateFrames": len(items), "BabelgateHalvedPacks": halved}
    )


def no_memory() -> TaskError:
    """For a row that does not fit into the device's memory, even alone."""
    return TaskError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "out-of-memory",
        "This does not fit into the device's memory, even alone.",
    )


def _invalid_image(detail: str) -> TaskError:
    return TaskError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-image", detail)
