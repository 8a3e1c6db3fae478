"""What PyTorch says of its device becomes an error of ours."""

from __future__ import annotations

import pytest
import torch

from handlers.engine.errors import DeviceFault, OutOfMemory
from handlers.engine.inference import choose_device, infer


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to …"), OutOfMemory),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), OutOfMemory),
        (RuntimeError("CUDA error: device-side assert triggered"), DeviceFault),
        (RuntimeError("shapes do not match"), RuntimeError),
    ],
    ids=["no memory", "no memory on a CPU", "a fault", "a bug"],
)
def test_an_error_is_told_by_what_it_says(error: Exception, expected: type[Exception]):
    with pytest.raises(expected) as caught:
        infer(lambda: fail(error))
    assert type(caught.value) is expected


def test_nothing_is_kept_for_gradients():
    weights = torch.ones(3, requires_grad=True)
    assert infer(lambda: weights * 2).is_inference()


def test_a_device_is_the_cpu_or_a_gpu_by_its_index():
    assert choose_device("cpu", 3) == torch.device("cpu")
    assert choose_device("cuda", 3) == torch.device("cuda:3")
