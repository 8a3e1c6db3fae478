"""The errors of a running model, and the only code that converts libraries' errors to them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Fault = TypeVar("Fault", bound=Exception)


class OutOfMemory(RuntimeError):
    """The batch does not fit into the device's memory; a smaller one may."""


class TooLate(RuntimeError):
    """The batch did not run: its deadline had passed."""


class DeviceFault(RuntimeError):
    """The device is in a state from which only a new process can recover."""


#: Parts of error messages of PyTorch and CTranslate2; the first match wins. The classes do not
#: suffice: CTranslate2 raises RuntimeError, and PyTorch's two inherit from it.
_CLUES: tuple[tuple[str, type[RuntimeError]], ...] = (
    ("out of memory", OutOfMemory),
    ("_alloc_failed", OutOfMemory),
    ("can't allocate memory", OutOfMemory),
    ("cuda", DeviceFault),
    ("cublas", DeviceFault),
    ("cudnn", DeviceFault),
)


@contextmanager
def device_errors() -> Iterator[None]:
    """Convert a library's device errors to EngineErrors; pass other errors through."""
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
    """Run a batch; if it fails with an error of this kind, for example because it is too large,
    run its halves instead, and so on. Return the answers in order and the number of halved
    batches. An item that fails alone gets the error as its answer."""
    try:
        return list(run(items)), 0
    except kind as error:
        if len(items) == 1:
            return [kind(str(error))], 0
    # Here, outside the except block, the error no longer keeps the engine's tensors alive.
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
