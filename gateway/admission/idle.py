"""Unloads models that have not been used for a while."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from catalog import Model
from gateway.admission.control import Admission

#: The number of checks within a model's limit, and the most seconds between two checks.
_LOOKS, _LONGEST_S = 4, 5.0


#: Unloads a model if the function still returns true.
Unload = Callable[[Model, Callable[[], bool]], None]


def start_unloading(
    admission: Admission, models: Sequence[Model], unload: Unload
) -> None:
    """Start a thread that unloads unused models, if any has an `idle_unload_s`."""
    limits = {m: m.settings.idle_unload_s for m in models if m.settings.idle_unload_s}
    if limits:
        parts = admission, limits, unload
        threading.Thread(target=unload_unused, args=parts, daemon=True).start()


def unload_unused(
    admission: Admission, limits: Mapping[Model, int], unload: Unload
) -> None:
    """Unload each model that no process has used for its limit in seconds. Every gateway
    process may run this. Never returns."""
    began = time.monotonic()
    every_s = min(_LONGEST_S, *(limit_s / _LOOKS for limit_s in limits.values()))
    while True:
        time.sleep(every_s)
        for model, limit_s in limits.items():
            then = time.monotonic() - limit_s
            is_unused = partial(admission.is_unused_since, model.name, then)
            # This look also shows the other processes that this one, however young, is alive.
            if is_unused() and then > began:
                unload(model, is_unused)
