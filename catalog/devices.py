"""Counts this host's GPUs as TorchServe counts them, and measures their memory."""

import os
import subprocess

_MEMORY = "--query-gpu=index,memory.used,memory.total"
_MIB = 1 << 20


def count_gpus() -> int:
    """Return the number of entries in CUDA_VISIBLE_DEVICES, or else of GPUs that nvidia-smi
    lists; 0 without nvidia-smi."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return sum(entry.strip() not in ("", "-1") for entry in visible.split(","))
    lines = _run_nvidia_smi("--list-gpus", timeout_s=30)
    # A GPU's MIG slices are listed below it, indented.
    return sum(line.startswith("GPU ") for line in lines)


def measure_gpu_memory() -> list[tuple[str, int, int]]:
    """Return index, used bytes and total bytes of each GPU of this host; empty without
    nvidia-smi. A GPU that reports no memory, such as one divided by MIG, is left out."""
    lines = _run_nvidia_smi(_MEMORY, "--format=csv,noheader,nounits", timeout_s=5)
    rows = ([cell.strip() for cell in line.split(",")] for line in lines)
    return [
        (row[0], int(row[1]) * _MIB, int(row[2]) * _MIB)
        for row in rows
        if len(row) == 3 and all(cell.isdecimal() for cell in row)
    ]


def _run_nvidia_smi(*arguments: str, timeout_s: int) -> list[str]:
    """Return the output lines of nvidia-smi; empty if it is missing or fails."""
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
