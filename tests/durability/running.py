"""`python -m tests.durability.running SCENARIO FAULT…` lets a scenario fail at each of its
operations, one process each, then starts again and checks what is there.
"""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Protocol

from tests.durability.operations import Fault, Operations

#: Another process gets so many seconds to come first. It may wait for a lock of ours.
_OTHER_S = 0.03
#: The descriptors beside standard input and output.
_FIRST_FILE, _MOST_FILES = 3, 1024


@dataclass(frozen=True)
class Diary:
    """What the users of a scenario have asked for and were told, in a file."""

    path: Path

    def tell(self, *words: object) -> None:
        """Adds a line."""
        with self.path.open("a") as file:
            file.write(f"{' '.join(map(str, words))}\n")

    def find(self, word: str) -> list[str]:
        """The rest of all lines that begin with a word."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found = (line.partition(" ") for line in lines)
        return [rest for first, _, rest in found if first == word]

    def attempt(
        self, name: str, step: Callable[[], object], *allowed: type[Exception]
    ) -> bool:
        """Whether a step has succeeded, which nobody knows of one that is killed."""
        self.tell("asked", name)
        try:
            step()
        except allowed:
            self.tell("refused", name)
            return False
        self.tell("done", name)
        return True


class Scenario(Protocol):
    """A module with these functions."""

    @staticmethod
    def prepare(folder: Path) -> None:
        """Makes what is there before."""

    @staticmethod
    def act(folder: Path, diary: Diary) -> None:
        """What fails."""

    @staticmethod
    def interfere(folder: Path, diary: Diary) -> None:
        """What another process does meanwhile; not all have it."""

    @staticmethod
    def check(folder: Path, diary: Diary) -> None:
        """Goes on in a new process."""


def fork(function: Callable[[], object], failures: Path) -> int:
    """Starts a process, which writes down its traceback."""
    process = os.fork()
    if process:
        return process
    try:
        function()
    except BaseException:
        with failures.open("a") as file:
            traceback.print_exc(file=file)
    os._exit(0)


@dataclass(frozen=True)
class Run:
    """A scenario and a fault in a new folder."""

    scenario: Scenario
    fault: Fault
    top: Path

    def fail_at(self, number: int) -> bool:
        """Whether there was such an operation."""
        folder, mark = self.top / "folder", self.top / "ended"
        diary = Diary(self.top / "diary")
        shutil.copytree(self.top / "template", folder)

        def interfere() -> None:
            process = self._fork(lambda: self._interfere(folder, diary))
            give_up_at = monotonic() + _OTHER_S
            while monotonic() < give_up_at:
                if os.waitpid(process, os.WNOHANG)[0]:
                    return
                sleep(_OTHER_S / 30)

        def act() -> None:
            operations = Operations(folder, number, self.fault, interfere)
            operations.begin()
            self.scenario.act(folder, diary)
            operations.end()
            with suppress(ChildProcessError):
                os.wait()
            if operations.count < number:
                mark.touch()
            loose = getattr(self.scenario, "LOOSE", ())
            torn = [t for t in operations.torn if not any(name in t for name in loose)]
            assert torn == []

        os.waitpid(self._fork(act), 0)
        os.waitpid(self._fork(lambda: self.scenario.check(folder, diary)), 0)
        has_ended = mark.exists()
        shutil.rmtree(folder)
        for path in (mark, diary.path):
            path.unlink(missing_ok=True)
        return not has_ended

    def _interfere(self, folder: Path, diary: Diary) -> None:
        """As a process that was never ours: it has none of our locks."""
        os.closerange(_FIRST_FILE, _MOST_FILES)
        self.scenario.interfere(folder, diary)

    def _fork(self, function: Callable[[], object]) -> int:
        return fork(function, self.top / "failures")


def list_faults(scenario: Scenario) -> list[Fault]:
    """What can happen to a scenario."""
    has_other = hasattr(scenario, "interfere")
    return [fault for fault in Fault if has_other or fault is not Fault.OTHER]


def run(scenario: Scenario, fault: Fault) -> int:
    """The number of operations. Ends the program where one of them has broken a promise."""
    with TemporaryDirectory() as name:
        top = Path(name)
        (top / "template").mkdir()
        failures = top / "failures"
        os.waitpid(
            fork(lambda: scenario.prepare(top / "template"), failures),
            0,
        )
        for number in count(1):
            is_there = Run(scenario, fault, top).fail_at(number)
            if failures.exists():
                sys.exit(f"{fault} at {number}:\n{failures.read_text()}")
            if not is_there:
                return number - 1
    raise AssertionError


if __name__ == "__main__":
    _, scenario_name, *faults = sys.argv
    module: Scenario = import_module(f"tests.durability.{scenario_name}")  # type: ignore[assignment]
    wanted = [fault for fault in map(Fault, faults) if fault in list_faults(module)]
    counts = [run(module, fault) for fault in wanted]
    sys.stdout.write(" ".join(map(str, counts)))
