"""How many GPUs this host offers, counted as TorchServe counts them."""

from __future__ import annotations

import os
import subprocess


def count_gpus() -> int:
    """The entries of CUDA_VISIBLE_DEVICES where it is set, else what nvidia-smi lists;
    0 where there is no nvidia-smi."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len(
            [entry for entry in visible.split(",") if entry.strip() not in ("", "-1")]
        )
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    # A GPU's MIG slices are listed below it, indented.
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
