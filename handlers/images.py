"""Shared by the tasks that take images: reads a row's frames and parameters, or reports
what is wrong with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import numpy as np

from handlers.base import ModelConfig, Row, TaskError
from handlers.engine.inference import limit_threads
from handlers.engine.vision.decoding import (
    Frame,
    ImageError,
    UnsupportedImage,
    read_frames,
)
from handlers.engine.vision.engine import VisionEngine

Engine = TypeVar("Engine", bound=VisionEngine)

#: Something to warm a model up with.
BLACK: Frame = np.zeros((64, 64, 3), np.uint8)


def place_engine(kind: type[Engine], config: ModelConfig, **options: Any) -> Engine:
    """A task's engine on the device and with the threads that the map gives it."""
    limit_threads(config.options["threads"])
    return kind(
        config.directory,
        device=config.device,
        index=config.device_index,
        compute_type=config.options["compute_type"],
        **options,
    )


def read_pictures(row: Row, max_pixels: int) -> list[Frame]:
    """The frames of a row, at least one. Raises TaskError."""
    body = row.body if isinstance(row.body, bytes | bytearray) else b""
    try:
        return read_frames(body, max_pixels=max_pixels)
    except UnsupportedImage as error:
        raise TaskError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-image", _sentence(error)
        ) from error
    except ImageError as error:
        raise _invalid_image(_sentence(error)) from error


def read_picture(row: Row, max_pixels: int) -> Frame:
    """The one frame of a row. Raises TaskError."""
    frames = read_pictures(row, max_pixels)
    if len(frames) > 1:
        raise _invalid_image(f"Expected one picture, found {len(frames)} frames.")
    return frames[0]


def read_whole(
    parameters: Mapping[str, str], name: str, *, least: int, most: int, default: int
) -> int:
    """A whole number of a row's parameters. Raises TaskError."""
    text = parameters.get(name)
    if text is None:
        return default
    # int() would take what is no number elsewhere: spaces, underscores, other digits.
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    if not is_number or not least <= int(text) <= most:
        raise _invalid(f"{name}: expected a whole number from {least} to {most}")
    return int(text)


def read_share(parameters: Mapping[str, str], name: str, *, default: float) -> float:
    """A number from 0 to 1 of a row's parameters. Raises TaskError."""
    text = parameters.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise _invalid(f"{name}: expected a number from 0 to 1")
    return value


def no_memory() -> TaskError:
    """For a row that does not fit into the device's memory, even alone."""
    return TaskError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "out-of-memory",
        "This does not fit into the device's memory, even alone.",
    )


def _sentence(error: ImageError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def _invalid_image(detail: str) -> TaskError:
    return TaskError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-image", detail)


def _invalid(detail: str) -> TaskError:
    return TaskError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail)
