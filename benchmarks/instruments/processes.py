"""CPU time and memory of a stack's programs; model workers are not counted with Java."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import psutil

from deploy.stack import Stack

#: Each program's main process, from which all others descend.
Leaders = Mapping[str, psutil.Process]
#: CPU seconds by program and process.
Clock = Mapping[str, Mapping[int, float]]

Result = TypeVar("Result")


@dataclass(frozen=True)
class ProcessUsage:
    """The CPU and memory of a program's processes together. Memory is in megabytes.
    Resident memory counts shared memory for each process, the proportional set size counts
    it once."""

    pss_mb: float
    rss_mb: float
    files: int
    threads: int


_TORCHSERVE, _WORKERS = "torchserve", "workers"
#: This process, which makes the load.
CLIENT = "client"


def find_leaders(stack: Stack) -> dict[str, psutil.Process]:
    """The main processes of a stack that `python -m deploy` has started."""
    return {program: stack.find_leader(program) for program in stack.programs}


def measure_cpu(
    leaders: Leaders, work: Callable[[], Result]
) -> tuple[Result, dict[str, float]]:
    """Return the result of `work`, and the CPU seconds that each program and the client
    spent."""
    before = _read_clock(leaders)
    result = work()
    return result, subtract(_read_clock(leaders), before)


@contextmanager
def deal_cores(leaders: Leaders) -> Iterator[None]:
    """Gives the programs half of the cores, this process the other. Raises ValueError."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    if not half:
        raise ValueError("one core cannot be dealt out")
    family = [process for part in _find_families(leaders).values() for process in part]
    try:
        _bind({psutil.Process(): cores[:half], **dict.fromkeys(family, cores[half:])})
        yield
    finally:
        _bind(dict.fromkeys([psutil.Process(), *family], cores))


def _bind(places: Mapping[psutil.Process, list[int]]) -> None:
    """Binds all threads: existing ones keep their cores unless each is told."""
    for process, cores in places.items():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            for thread in process.threads():
                os.sched_setaffinity(thread.id, cores)


def measure_memory(leaders: Leaders) -> dict[str, float]:
    """Megabytes of each program; memory shared by several processes counts once."""
    return {
        program: _measure_holding(family).pss_mb
        for program, family in _find_families(leaders).items()
    }


def measure_holdings(leaders: Leaders) -> dict[str, ProcessUsage]:
    """Measure the memory of each program, and of supervisord, which started them."""
    families = _find_families(leaders)
    supervisors = {leader.parent() for leader in leaders.values()} - {None}
    families["supervisord"] = [process for process in supervisors if process]
    return {program: _measure_holding(family) for program, family in families.items()}


def _measure_holding(family: Iterable[psutil.Process]) -> ProcessUsage:
    """Measure a process; nothing if it ends meanwhile."""
    pss = rss = files = threads = 0
    for process in family:
        with suppress(psutil.Error):
            memory = process.memory_full_info()
            pss, rss = pss + memory.pss, rss + memory.rss
            files += process.num_fds()
            threads += process.num_threads()
    return ProcessUsage(pss / 1e6, rss / 1e6, files, threads)


def subtract(after: Clock, before: Clock) -> dict[str, float]:
    """CPU seconds by program. A new process began at 0; what an ended one used is unknown."""
    return {
        program: sum(
            seconds - before.get(program, {}).get(pid, 0.0)
            for pid, seconds in processes.items()
        )
        for program, processes in after.items()
    }


def divide(seconds: Mapping[str, float], answers: int) -> dict[str, float]:
    """Milliseconds per answer."""
    return {
        program: value * 1000 / max(1, answers) for program, value in seconds.items()
    }


def _find_families(leaders: Leaders) -> dict[str, list[psutil.Process]]:
    families = {
        program: [leader, *leader.children(recursive=True)]
        for program, leader in leaders.items()
    }
    if family := families.get(_TORCHSERVE):
        java = [process for process in family if process.name() == "java"]
        workers = [child for one in java for child in one.children(recursive=True)]
        families[_TORCHSERVE] = [one for one in family if one not in workers]
        families[_WORKERS] = workers
    return families


def _read_clock(leaders: Leaders) -> Clock:
    families = _find_families(leaders) | {CLIENT: [psutil.Process()]}
    clock: dict[str, dict[int, float]] = {program: {} for program in families}
    for program, family in families.items():
        for process in family:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                clock[program][process.pid] = times.user + times.system
    return clock
