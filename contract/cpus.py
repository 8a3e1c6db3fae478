"""The number of the machine's CPUs that this process may use."""

import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path


def count_cpus(root: Path = Path("/")) -> int:
    """The CPUs that the system and all control groups of this process allow; a part of one
    counts as one."""
    limits = [float(len(os.sched_getaffinity(0)))]
    for quota, *period in _list_quotas(
        root / "sys/fs/cgroup", root / "proc/self/cgroup"
    ):
        if quota.isdigit() and period:
            limits.append(int(quota) / int(period[0]))
    return max(1, math.ceil(min(limits)))


def _list_quotas(groups: Path, own: Path) -> Iterator[Sequence[str]]:
    """Microseconds of CPU in a period, as the groups around this process have them."""
    (path,) = re.findall(r"(?m)^0::/(.*)$", _read_text(own)) or [""]
    for part in (path, *map(str, Path(path).parents)):
        yield _read_text(groups / part / "cpu.max").split() or [""]
    # The first version of control groups; in a container its own group is the root.
    names = "cpu.cfs_quota_us", "cpu.cfs_period_us"
    yield [_read_text(groups / "cpu" / name).strip() for name in names]


def _read_text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
