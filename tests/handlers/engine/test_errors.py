"""A library's errors become ours: too large, or a broken device."""

from __future__ import annotations

import pytest
import torch

from handlers.engine.errors import DeviceFault, EngineError, OutOfMemory, device_errors

OUT_OF_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("CUDA failed with error out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    MemoryError("std::bad_alloc"),
)
FAULTS = (
    torch.AcceleratorError("CUDA error: device-side assert triggered", 710),
    RuntimeError("CUDA failed with error an illegal memory access was encountered"),
    RuntimeError("cuBLAS failed with status CUBLAS_STATUS_EXECUTION_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
)
OTHERS = (RuntimeError("No position encodings are defined"), ValueError("CUDA"))


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_a_batch_that_is_too_large_is_out_of_memory(error: Exception):
    with pytest.raises(OutOfMemory) as caught, device_errors():
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", FAULTS, ids=str)
def test_everything_else_on_the_device_is_a_fault(error: Exception):
    with pytest.raises(DeviceFault) as caught, device_errors():
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", OTHERS, ids=str)
def test_what_is_not_the_devices_passes(error: Exception):
    with pytest.raises(type(error)) as caught, device_errors():
        raise error
    assert caught.value is error


def test_torchserve_reports_a_model_that_does_not_load_because_of_its_device():
    """It reports RuntimeErrors only."""
    assert issubclass(EngineError, RuntimeError)
