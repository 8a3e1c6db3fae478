"""Frames in the forms that clients send: image files and arrays."""

import io
from typing import Any

import numpy as np
from PIL import Image


def write_npy(array: Any) -> bytes:
    target = io.BytesIO()
    np.save(target, array)
    return target.getvalue()


def write_image(image: Any, format: str = "PNG", **options: Any) -> bytes:
    """Encode a Pillow image or a frame as an image file."""
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    target = io.BytesIO()
    image.save(target, format, **options)
    return target.getvalue()
