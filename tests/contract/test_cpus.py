"""The number of CPUs of machines and containers."""

import os
from pathlib import Path

import pytest

from contract.cpus import count_cpus

V1 = "12:cpu,cpuacct:/docker/a\n1:name=systemd:/docker/a\n"


@pytest.mark.parametrize(
    ("own", "files", "cpus"),
    [
        pytest.param("", {}, 8, id="no groups"),
        pytest.param("0::/\n", {"cpu.max": "max 100000\n"}, 8, id="no limit"),
        pytest.param("0::/\n", {"cpu.max": "150000 100000\n"}, 2, id="a part"),
        pytest.param("0::/\n", {"cpu.max": "10000 100000\n"}, 1, id="less than one"),
        pytest.param(
            "0::/a/b\n",
            {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"},
            3,
            id="a group around it",
        ),
        pytest.param(
            V1,
            {"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            4,
            id="version 1",
        ),
        pytest.param(
            V1,
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            8,
            id="version 1 without a limit",
        ),
    ],
)
def test_what_groups_allow_is_counted(tmp_path: Path, monkeypatch, own, files, cpus):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    written = {"proc/self/cgroup": own}
    written |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in written.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert count_cpus(tmp_path) == cpus
