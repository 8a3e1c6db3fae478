"""GPUs are counted by the environment, else by nvidia-smi, which also reports their memory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from catalog.devices import count_gpus, measure_gpu_memory

Say = Callable[[str | None, int, str], None]

TWO = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-9f1c2f11)
"""
SLICED = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 3g.20gb     Device  0: (UUID: MIG-af43)
  MIG 3g.20gb     Device  1: (UUID: MIG-c672)
"""


def test_visible_devices_are_counted(monkeypatch: pytest.MonkeyPatch):
    counts = {"": 0, "-1": 0, "0": 1, "0, 1, 2": 3, "GPU-5d5ba0d6": 1}
    for visible, count in counts.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert count_gpus() == count


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Say:
    """A function that installs no nvidia-smi, or one that fails on all options but one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")

    def say(said: str | None, status: int, option: str) -> None:
        if said is not None:
            script = (
                f"case $1 in {option}) printf '{said}'; exit {status};; esac; exit 64"
            )
            program = tmp_path / "nvidia-smi"
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)

    return say


@pytest.mark.parametrize(
    ("said", "status", "count"),
    [
        pytest.param(TWO, 0, 2, id="two GPUs"),
        pytest.param(SLICED, 0, 1, id="one GPU cut in slices"),
        pytest.param("No devices found.\n", 0, 0, id="none"),
        pytest.param(TWO, 15, 0, id="failed after all"),
        pytest.param(None, 0, 0, id="no nvidia-smi"),
    ],
)
def test_nvidia_smi_is_asked_where_the_environment_is_silent(say, said, status, count):
    say(said, status, "--list-gpus")
    assert count_gpus() == count


MEMORY = [("0", 300 << 20, 81559 << 20), ("1", 4 << 20, 81559 << 20)]


@pytest.mark.parametrize(
    ("said", "status", "memory"),
    [
        pytest.param("0, 300, 81559\n1, 4, 81559\n", 0, MEMORY, id="two GPUs"),
        pytest.param("0, [N/A], 81559\n", 0, [], id="one that does not say"),
        pytest.param("No devices were found\n", 0, [], id="none"),
    ],
)
def test_the_memory_of_every_gpu_is_measured(say, said, status, memory):
    say(said, status, "--query-gpu=*")
    assert measure_gpu_memory() == memory
