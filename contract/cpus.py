"""The number of the machine's CPUs that this process may use."""

import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path


def count_cpus(root: Path = Path("/")) -> int:
    """Return the number of CPUs that affinity and all control groups allow, rounded up."""
    limits = [float(len(os.sched_getaffinity(0)))]
    for quota, *period in _list_quotas(root):
        if quota.isdigit() and period:
            limits.append(int(quota) / int(period[0]))
    return max(1, math.ceil(min(limits)))


def _list_quotas(root: Path) -> Iterator[Sequence[str]]:
    """Yield the quota and period in microseconds of each control group of this process."""
    groups, own = root / "sys/fs/cgroup", root / "proc/self/cgroup"
    (path,) = re.findall(r"(?m)^0::/(.*)$", _read_text(own)) or [""]
    for part in (path, *map(str, Path(path).parents)):
        yield _read_text(groups / part / "cpu.max").split() or [""]
    # Version 1 of control groups; a container sees its own group as the root.
    names = "cpu.cfs_quota_us", "cpu.cfs_period_us"
    yield [_read_text(groups / "cpu" / name).strip() for name in names]


def _read_text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
