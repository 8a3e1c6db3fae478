"""The common steps of engines on PyTorch."""

from collections.abc import Callable
from typing import TypeVar

import torch

from handlers.engine.errors import OutOfMemory, device_errors

Result = TypeVar("Result")


def choose_device(device: str, index: int) -> torch.device:
    """`cpu`, or the GPU of that index."""
    return torch.device(device, index if device == "cuda" else None)


def infer(compute: Callable[[], Result]) -> Result:
    """The result of `compute`, without gradients. Raises OutOfMemory or DeviceFault."""
    try:
        with device_errors(), torch.inference_mode():
            return compute()
    except OutOfMemory as error:
        message = str(error)
    # Only now nothing refers to the tensors of the failed attempt any more.
    torch.cuda.empty_cache()
    raise OutOfMemory(message)
