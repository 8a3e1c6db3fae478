"""The common steps of engines on PyTorch: load a model onto its device, translate its
errors and release its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from handlers.engine.errors import OutOfMemory, device_errors

Result = TypeVar("Result")


def limit_threads(count: int) -> None:
    """Lets PyTorch compute with `count` threads in this process; 0 is one per core."""
    if count:
        torch.set_num_threads(count)


def choose_device(device: str, index: int) -> torch.device:
    """`cpu`, or the GPU of that index."""
    return torch.device(device, index if device == "cuda" else None)


def load_model(
    kind: Any, directory: Path, *, device: torch.device, dtype: torch.dtype
) -> Any:
    """The model of a Hugging Face directory. Parts that Transformers has loaded in another
    precision, as BLIP-2's Q-Former, keep theirs. Weights that are pickled are not read."""
    model = kind.from_pretrained(
        directory, dtype=dtype, local_files_only=True, use_safetensors=True
    )
    return model.to(device).eval()


def infer(compute: Callable[[], Result]) -> Result:
    """Run `compute` without gradients and return its result. Raises OutOfMemory or
    DeviceFault."""
    try:
        with device_errors(), torch.inference_mode():
            return compute()
    except OutOfMemory as error:
        message = str(error)
    # Only now nothing refers to the tensors of the failed attempt any more.
    torch.cuda.empty_cache()
    raise OutOfMemory(message)
