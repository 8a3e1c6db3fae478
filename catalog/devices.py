"""Counts this host's GPUs as TorchServe counts them, and reads how full they are."""

import os
import subprocess

_MEMORY = "--query-gpu=index,memory.used,memory.total"
_MIB = 1 << 20


def count_gpus() -> int:
    """The number of entries in CUDA_VISIBLE_DEVICES, or else of GPUs that nvidia-smi lists; 0
    without nvidia-smi."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len(
            [entry for entry in visible.split(",") if entry.strip() not in ("", "-1")]
        )
    # A GPU's MIG slices are listed below it, indented.
    return sum(
        line.startswith("GPU ") for line in _run_nvidia_smi("--list-gpus", timeout_s=30)
    )


def measure_gpu_memory() -> list[tuple[str, int, int]]:
    """Index, used bytes and all bytes of every GPU of this host; none without nvidia-smi. A GPU
    that does not report its memory is left out, such as one divided by MIG."""
    rows = (
        [cell.strip() for cell in line.split(",")]
        for line in _run_nvidia_smi(
            _MEMORY, "--format=csv,noheader,nounits", timeout_s=5
        )
    )
    return [
        (row[0], int(row[1]) * _MIB, int(row[2]) * _MIB)
        for row in rows
        if len(row) == 3 and all(cell.isdecimal() for cell in row)
    ]


def _run_nvidia_smi(*arguments: str, timeout_s: int) -> list[str]:
    """The lines that nvidia-smi prints; none if it is missing or fails."""
    try:
        said = subprocess.run(
            ["nvidia-smi", *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return said.stdout.splitlines()
