"""Unloads models that nobody has used for a while."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from catalog import Model
from gateway.admission.control import Admission

#: How often a model's limit is looked at, and the longest time between two looks.
_LOOKS, _LONGEST_S = 4, 5.0


#: Unloads a model, unless the question is denied.
Unload = Callable[[Model, Callable[[], bool]], None]


def start_unloading(
    admission: Admission, models: Sequence[Model], unload: Unload
) -> None:
    """Has models with an `idle_unload_s` unloaded, from now on."""
    limits = {m: m.settings.idle_unload_s for m in models if m.settings.idle_unload_s}
    if limits:
        parts = admission, limits, unload
        threading.Thread(target=unload_unused, args=parts, daemon=True).start()


def unload_unused(
    admission: Admission, limits: Mapping[Model, int], unload: Unload
) -> None:
    """Has each model unloaded that no process has used for its limit in seconds. Each of the
    gateway's processes may ask for it. Never returns."""
    began = time.monotonic()
    every_s = min(_LONGEST_S, *(limit_s / _LOOKS for limit_s in limits.values()))
    while True:
        time.sleep(every_s)
        for model, limit_s in limits.items():
            then = time.monotonic() - limit_s
            is_unused = partial(admission.is_unused_since, model.name, then)
            if then > began and is_unused():
                unload(model, is_unused)
