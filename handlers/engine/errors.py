"""The errors of a running model, and the one place where a library's errors become ours.

EngineError         a batch has no translations
├── OutOfMemory     it is too large for the device; a smaller one may fit
├── TooLate         nobody waits for them any more; it did not run
└── DeviceFault     nothing will run on the device in this process any more
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Fault = TypeVar("Fault", bound=Exception)


class EngineError(RuntimeError):
    """The reason why an engine has no translations for a batch."""


class OutOfMemory(EngineError):
    """The batch does not fit into the device's memory."""


class TooLate(EngineError):
    """The batch did not run: its time was up."""


class DeviceFault(EngineError):
    """The device is in a state from which only a new process recovers."""


#: Parts of the messages of PyTorch and CTranslate2; the first that fits wins. Their classes
#: say no more: CTranslate2's is RuntimeError, PyTorch's two inherit from it.
_CLUES: tuple[tuple[str, type[EngineError]], ...] = (
    ("out of memory", OutOfMemory),
    ("_alloc_failed", OutOfMemory),
    ("can't allocate memory", OutOfMemory),
    ("cuda", DeviceFault),
    ("cublas", DeviceFault),
    ("cudnn", DeviceFault),
)


@contextmanager
def device_errors() -> Iterator[None]:
    """Raises EngineErrors for what a library says of its device; lets the rest pass."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(str(error)) from error
    except RuntimeError as error:
        message = str(error).lower()
        for clue, kind in _CLUES:
            if clue in message:
                raise kind(str(error)) from error
        raise


def run_in_halves(
    run: Callable[[Sequence[Item]], Sequence[Answer]],
    items: Sequence[Item],
    kind: type[Fault] = OutOfMemory,  # type: ignore[assignment]
) -> tuple[list[Answer | Fault], int]:
    """Run a batch that may fail with a kind of error, as where it is too large for the device:
    if it does, its halves run instead, and so on. Returns the answers in order, and how many
    batches were halved. An item that fails alone is answered with the error."""
    try:
        return list(run(items)), 0
    except kind as error:
        if len(items) == 1:
            return [kind(str(error))], 0
    # Here the error no longer keeps alive what the engine had in memory.
    half = len(items) // 2
    first, halved_first = run_in_halves(run, items[:half], kind)
    second, halved_second = run_in_halves(run, items[half:], kind)
    return first + second, 1 + halved_first + halved_second


def run_in_groups(
    run: Callable[[Sequence[Item]], Sequence[Answer]],
    items: Sequence[Item],
    find_key: Callable[[Item], object],
) -> list[Answer]:
    """Run the items of each key as a batch, and return the answers in the items' order."""
    groups: dict[object, list[int]] = {}
    for place, item in enumerate(items):
        groups.setdefault(find_key(item), []).append(place)
    answers: dict[int, Answer] = {}
    for places in groups.values():
        answers |= zip(places, run([items[place] for place in places]), strict=True)
    return [answers[place] for place in range(len(items))]
