"""Counts this host's GPUs as TorchServe counts them, and reads how full they are."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

_MEMORY = "--query-gpu=index,memory.used,memory.total"
_MIB = 1 << 20


@dataclass(frozen=True)
class GpuMemory:
    """A GPU by the index that nvidia-smi gives it, and its memory."""

    index: str
    used_bytes: int
    total_bytes: int


def count_gpus() -> int:
    """The entries of CUDA_VISIBLE_DEVICES where it is set, else what nvidia-smi lists;
    0 where there is no nvidia-smi."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len(
            [entry for entry in visible.split(",") if entry.strip() not in ("", "-1")]
        )
    # A GPU's MIG slices are listed below it, indented.
    return sum(line.startswith("GPU ") for line in _ask("--list-gpus", timeout_s=30))


def measure_gpu_memory() -> list[GpuMemory]:
    """Every GPU of this host; none where there is no nvidia-smi. A GPU that does not say
    how full it is (one cut in slices may not) is left out."""
    rows = (
        [cell.strip() for cell in line.split(",")]
        for line in _ask(_MEMORY, "--format=csv,noheader,nounits", timeout_s=5)
    )
    return [
        GpuMemory(row[0], int(row[1]) * _MIB, int(row[2]) * _MIB)
        for row in rows
        if len(row) == 3 and all(cell.isdecimal() for cell in row)
    ]


def _ask(*arguments: str, timeout_s: int) -> list[str]:
    """What nvidia-smi says, line by line; nothing where it is missing or fails."""
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
