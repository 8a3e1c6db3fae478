"""The common steps of engines on PyTorch."""

from collections.abc import Callable
from typing import TypeVar

import torch

from handlers.engine.errors import OutOfMemory, device_errors

Result = TypeVar("Result")


def choose_device(gpu: int | None) -> torch.device:
    """The GPU with this index, or the CPU if it is None."""
    return torch.device("cpu" if gpu is None else f"cuda:{gpu}")


def infer(compute: Callable[[], Result]) -> Result:
    """Run `compute` without gradients. Raises OutOfMemory or DeviceFault."""
    try:
        with device_errors(), torch.inference_mode():
            return compute()
    except OutOfMemory as error:
        message = str(error)
    # Only here, outside the except block, are the failed attempt's tensors unreferenced.
    torch.cuda.empty_cache()
    raise OutOfMemory(message)
