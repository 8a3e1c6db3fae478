"""The common steps of engines on PyTorch."""

from collections.abc import Callable
from typing import TypeVar

import torch

from handlers.engine.errors import OutOfMemory, device_errors

Result = TypeVar("Result")


def choose_device(gpu: int | None) -> torch.device:
    """The GPU of that index; the CPU without one."""
    return torch.device("cpu" if gpu is None else f"cuda:{gpu}")


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
