"""Frames as people send them: image files and arrays."""

import io
from typing import Any

import numpy as np
from PIL import Image


def write_npy(array: Any) -> bytes:
    target = io.BytesIO()
    np.save(target, array)
    return target.getvalue()


def write_image(image: Any, format: str = "PNG", **options: Any) -> bytes:
    """An image file of a Pillow image, or of a frame."""
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    target = io.BytesIO()
    image.save(target, format, **options)
    return target.getvalue()
