"""What PyTorch says of its device becomes an error of ours."""

from __future__ import annotations

import pytest
import torch

from handlers.engine.errors import OutOfMemory
from handlers.engine.inference import choose_device, infer


def fail(error: Exception) -> None:
    raise error


def test_an_error_of_the_device_is_ours():
    with pytest.raises(OutOfMemory):
        infer(lambda: fail(torch.OutOfMemoryError("CUDA out of memory. Tried to …")))


def test_another_error_passes():
    with pytest.raises(RuntimeError, match="shapes"):
        infer(lambda: fail(RuntimeError("shapes do not match")))


def test_nothing_is_kept_for_gradients():
    weights = torch.ones(3, requires_grad=True)
    assert infer(lambda: weights * 2).is_inference()


def test_a_device_is_the_cpu_or_a_gpu_by_its_index():
    assert choose_device("cpu", 3) == torch.device("cpu")
    assert choose_device("cuda", 3) == torch.device("cuda:3")
