"""`python -m tests.durability.running SCENARIO FAULT…` makes a scenario fail at each of its
operations, in one process each, then starts it again and checks the result.

A scenario is a module: `act(folder, diary)` fails, and `check(folder, diary)` continues in a
new process. Optional: `prepare(folder)` creates the initial files, `interfere(folder, diary)`
is run by another process meanwhile, and `LOOSE` has parts of the names that files may get
before their content is synced."""

import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import ModuleType

from tests.durability.operations import Fault, Operations

#: The seconds that another process gets to act first. It may wait for a lock of ours.
_OTHER_S = 0.03
_HAS_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


@dataclass(frozen=True)
class Diary:
    """A record of a scenario's requests and answers, in a file."""

    path: Path

    def tell(self, *words: object) -> None:
        with self.path.open("a") as file:
            file.write(f"{' '.join(map(str, words))}\n")

    def find(self, word: str) -> list[str]:
        """Return the rest of each line that begins with a word."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found = (line.partition(" ") for line in lines)
        return [rest for first, _, rest in found if first == word]

    def attempt(
        self, name: str, step: Callable[[], object], *allowed: type[Exception]
    ) -> bool:
        """Record a step, and whether it succeeded: a killed one has no recorded outcome."""
        self.tell("asked", name)
        try:
            step()
        except allowed:
            self.tell("refused", name)
            return False
        self.tell("done", name)
        return True


class Site:
    """A folder, the diary of its users, the tracebacks of processes, and a mark."""

    def __init__(self, top: Path) -> None:
        self.folder, self.diary = top / "folder", Diary(top / "diary")
        self.failures, self.ended = top / "failures", top / "ended"

    def fork(self, function: Callable[[], object]) -> int:
        """Start a process that records its traceback."""
        process = os.fork()
        if process:
            return process
        try:
            function()
        except BaseException:
            with self.failures.open("a") as file:
                traceback.print_exc(file=file)
        os._exit(0)

    def call(self, function: Callable[[], object]) -> None:
        """Run a function in a process, and wait for its end."""
        os.waitpid(self.fork(function), 0)

    @contextmanager
    def waiting(self, function: Callable[[], object]) -> Iterator[Callable[[], None]]:
        """Fork a process without our later files and locks; the yielded function starts it."""
        reader, writer = os.pipe()

        def begin() -> None:
            os.close(writer)
            if os.read(reader, 1):
                function()

        def start() -> None:
            os.write(writer, b"1")
            give_up_at = monotonic() + _OTHER_S
            while not os.waitid(os.P_PID, process, _HAS_ENDED):
                if monotonic() > give_up_at:
                    return
                sleep(_OTHER_S / 30)

        process = self.fork(begin)
        yield start
        os.close(writer)
        os.waitpid(process, 0)


def act(site: Site, scenario: ModuleType, fault: Fault, number: int) -> None:
    """Run a scenario that fails at an operation, or leave a mark if it has fewer operations."""
    interfere = getattr(scenario, "interfere", lambda *_: None)
    with site.waiting(partial(interfere, site.folder, site.diary)) as other:
        operations = Operations(site.folder, number, fault, other)
        operations.begin()
        scenario.act(site.folder, site.diary)
        operations.end()
    if operations.count < number:
        site.ended.touch()
    loose = getattr(scenario, "LOOSE", ())
    torn = [name for name in operations.torn if not any(part in name for part in loose)]
    assert torn == [], torn


def run(scenario: ModuleType, fault: Fault) -> int:
    """Return the number of operations. Exits if the fault at one of them breaks a promise."""
    with TemporaryDirectory() as name:
        site, template = Site(Path(name)), Path(name, "template")
        template.mkdir()
        prepare = getattr(scenario, "prepare", lambda _: None)
        site.call(partial(prepare, template))
        for number in count(1):
            shutil.copytree(template, site.folder)
            site.call(partial(act, site, scenario, fault, number))
            site.call(partial(scenario.check, site.folder, site.diary))
            if site.failures.exists():
                sys.exit(f"{fault} at {number}:\n{site.failures.read_text()}")
            if site.ended.exists():
                return number - 1
            shutil.rmtree(site.folder)
            site.diary.path.unlink(missing_ok=True)
    raise AssertionError


def main(name: str, *faults: str) -> None:
    """Run a scenario, and print the number of operations for each applicable fault."""
    scenario = import_module(f"tests.durability.{name}")
    for fault in map(Fault, faults):
        if fault is not Fault.OTHER or hasattr(scenario, "interfere"):
            sys.stdout.write(f"{run(scenario, fault)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
