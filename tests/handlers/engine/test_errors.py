"""A library's errors become ours: out of memory, or a broken device."""

from collections.abc import Sequence

import pytest
import torch

from handlers.engine.errors import (
    DeviceFault,
    OutOfMemory,
    device_errors,
    run_in_halves,
)
from handlers.engine.inference import choose_device, infer


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to …"), OutOfMemory),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when …"), OutOfMemory),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), OutOfMemory),
        (MemoryError("std::bad_alloc"), OutOfMemory),
        (torch.AcceleratorError("CUDA error: device-side assert", 710), DeviceFault),
        (RuntimeError("cuBLAS failed with status …"), DeviceFault),
        (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"), DeviceFault),
        (RuntimeError("No position encodings are defined"), None),
        (ValueError("CUDA"), None),
    ],
    ids=str,
)
def test_an_error_of_a_library_is_ours_if_it_is_about_the_device(error, kind):
    with pytest.raises(kind or type(error)) as caught, device_errors():
        raise error
    assert (caught.value.__cause__ if kind else caught.value) is error


def double(items: Sequence[int]) -> list[int]:
    """Double numbers, with memory for a sum of 10."""
    if sum(items) > 10:
        raise OutOfMemory("too much")
    return [2 * item for item in items]


@pytest.mark.parametrize(
    ("items", "answers", "halved"),
    [
        ([], [], 0),
        ([1, 2, 3], [2, 4, 6], 0),
        ([5, 5, 5, 5], [10, 10, 10, 10], 1),
        ([6, 6, 6], [12, 12, 12], 2),
    ],
    ids=["empty", "fits", "halves fit", "single ones fit"],
)
def test_answers_keep_their_order(items: list[int], answers: list[int], halved: int):
    assert run_in_halves(double, items) == (answers, halved)


def test_what_does_not_fit_alone_costs_the_others_nothing():
    (first, lost, last), halved = run_in_halves(double, [1, 11, 2])
    assert (first, last) == (2, 4)
    assert isinstance(lost, OutOfMemory)
    assert halved == 2


def test_nothing_is_kept_for_gradients():
    weights = torch.ones(3, requires_grad=True)
    assert infer(lambda: weights * 2).is_inference()
    assert choose_device(None) == torch.device("cpu")
    assert choose_device(3) == torch.device("cuda:3")
