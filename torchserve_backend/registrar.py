"""Compares the map with what TorchServe runs, and mends the difference. `plan` is pure;
`apply` acts and may be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from torchserve_backend import archiver
from torchserve_backend.catalog import Model
from torchserve_backend.management import Management, ManagementError, Registered

#: Seconds between two looks of the watch.
EVERY_S = 3.0
#: Seconds without a worker before the watch revives a model; a start must not take longer.
PATIENCE_S = 900.0

Say = Callable[[str], object]


class Step(StrEnum):
    """What an action does to its model."""

    REGISTER = "register"
    REPLACE = "replace"
    SCALE = "scale"
    REVIVE = "revive"
    REMOVE = "remove"


@dataclass(frozen=True)
class Desired:
    """A model as the map wants it, and the archive that brings it."""

    model: Model
    archive: str
    version: str
    #: Where its weights lie; only who writes the archive needs it.
    model_path: Path = Path()

    @property
    def name(self) -> str:
        """What TorchServe calls it."""
        return self.model.name


@dataclass(frozen=True)
class Action:
    """One step on one model, and why."""

    step: Step
    name: str
    reason: str
    #: None where the model is to be removed.
    desired: Desired | None = None

    def __str__(self) -> str:
        return f"{self.step} {self.name}: {self.reason}"


def plan(
    desired: Sequence[Desired],
    actual: Mapping[str, Registered | None],
    *,
    dead: Iterable[str] = (),
) -> list[Action]:
    """The actions that make `actual` (by name; None is not registered) what is desired.

    What `actual` has beyond that is removed where it is ours, before all else: the others
    may need its memory. `dead` names models that have had no worker for so long that
    TorchServe must have given up on them; they are revived, as they are. One that an
    operator has scaled to nothing is not dead.
    """
    given_up = set(dead)
    wanted = {model.name for model in desired}
    actions = [
        Action(Step.REMOVE, name, "the map does not name it")
        for name, found in actual.items()
        if found and name not in wanted and archiver.is_ours(found.version)
    ]
    for model in desired:
        found = actual.get(model.name)
        difference = _compare(model, found, is_dead=model.name in given_up)
        if difference:
            step, reason = difference
            actions.append(Action(step, model.name, reason, model))
    return actions


def _compare(
    desired: Desired, found: Registered | None, *, is_dead: bool
) -> tuple[Step, str] | None:
    settings, workers = desired.model.settings, desired.model.workers
    if found is None:
        return Step.REGISTER, "not registered"
    if is_dead and not found.is_ready and found.min_workers:
        return Step.REVIVE, "no worker, and TorchServe has stopped trying"
    if found.version != desired.version:
        reason = f"runs {found.version}, the map asks for {desired.version}"
        return Step.REPLACE, reason
    for name in ("batch_size", "max_batch_delay"):
        is_value, should_be = getattr(found, name), getattr(settings, name)
        if is_value != should_be:
            return Step.REPLACE, f"{name} is {is_value}, the map says {should_be}"
    if found.min_workers != workers:
        return Step.SCALE, f"{found.min_workers} workers, the map says {workers}"
    return None


def observe(
    desired: Iterable[Desired], management: Management
) -> dict[str, Registered | None]:
    """What TorchServe says about each desired model."""
    return {model.name: management.describe(model.name) for model in desired}


def apply(actions: Iterable[Action], management: Management) -> None:
    """Carries the actions out; workers start in the background.

    Raises ManagementError at the first that TorchServe refuses, and where the archive in
    its store is not the one that the map asks for.
    """
    for action in actions:
        if action.step in (Step.REPLACE, Step.REMOVE):
            _unregister(action.name, management)
        if action.desired is not None:
            _reach(action.desired, action.step, management)


def _reach(desired: Desired, step: Step, management: Management) -> None:
    if step in (Step.REGISTER, Step.REPLACE):
        _register(desired, management)
    if step is Step.SCALE:
        management.scale(desired.name, desired.model.workers)
    if step is Step.REVIVE:
        _revive(desired, management)


def _register(desired: Desired, management: Management) -> None:
    settings = desired.model.settings
    management.register(
        desired.archive,
        desired.name,
        batch_size=settings.batch_size,
        max_batch_delay=settings.max_batch_delay,
        workers=desired.model.workers,
    )
    found = management.describe(desired.name)
    if found and found.version != desired.version:
        raise ManagementError(
            f"{desired.archive} in TorchServe's store is {found.version}, the map asks for "
            f"{desired.version}: write the archives first"
        )


def _revive(desired: Desired, management: Management) -> None:
    """Asking for the same number of workers again does nothing. A model must not stay at
    none where the first of the two calls takes too long."""
    try:
        management.scale(desired.name, 0, wait=True)
    finally:
        management.scale(desired.name, desired.model.workers)


def _unregister(name: str, management: Management) -> None:
    found = management.describe(name)
    if found:
        management.unregister(name, found.version)


def poll_ready(
    desired: Sequence[Desired], management: Management, timeout_s: float
) -> Iterator[set[str]]:
    """Yields the names of the models that are ready, again and again, until all are.

    Raises TimeoutError where some are not after `timeout_s`, ManagementError where
    TorchServe does not answer.
    """
    give_up_at = time.monotonic() + timeout_s
    while True:
        states = observe(desired, management)
        ready = {name for name, found in states.items() if found and found.is_ready}
        yield ready
        if len(ready) == len(states):
            return
        if time.monotonic() > give_up_at:
            raise TimeoutError(
                f"not ready after {timeout_s:.0f} s: {', '.join(sorted(set(states) - ready))}"
            )
        time.sleep(0.5)


class Watch:
    """Remembers since when each model has had no worker."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._missing_since: dict[str, float] = {}

    def find_dead(
        self, actual: Mapping[str, Registered | None], now: float
    ) -> set[str]:
        """The registered models that have been without a worker for longer than the
        patience; each is named once and then given the same time again."""
        missing = {
            name for name, found in actual.items() if found and not found.is_ready
        }
        self._missing_since = {
            name: self._missing_since.get(name, now) for name in missing
        }
        dead = {
            name
            for name in missing
            if now - self._missing_since[name] > self._patience_s
        }
        for name in dead:
            self._missing_since[name] = now
        return dead


def plan_change(desired: Sequence[Desired], management: Management) -> list[Action]:
    """One look at TorchServe: all that differs from the map, with what the map no longer
    names.

    Raises ManagementError where TorchServe does not answer.
    """
    names = management.names()
    return plan(desired, {name: management.describe(name) for name in names})


def plan_healing(
    desired: Sequence[Desired], management: Management, watch: Watch
) -> list[Action]:
    """One look at TorchServe: what is missing is to be registered and what is dead to be
    revived; what an operator has changed by hand is left alone.

    Raises ManagementError where TorchServe does not answer.
    """
    actual = observe(desired, management)
    dead = watch.find_dead(actual, time.monotonic())
    return [
        action
        for action in plan(desired, actual, dead=dead)
        if action.step in (Step.REGISTER, Step.REVIVE)
    ]


def heal_forever(
    desired: Sequence[Desired],
    management: Management,
    say: Say,
    *,
    every_s: float = EVERY_S,
    patience_s: float = PATIENCE_S,
) -> None:
    """Registers what has gone (TorchServe was restarted) and revives what is dead, and
    leaves alone what an operator has changed by hand. Never returns."""
    watch = Watch(patience_s)
    while True:
        with _told(say):
            for action in plan_healing(desired, management, watch):
                _heal(action, management, say)
        time.sleep(every_s)


def _heal(action: Action, management: Management, say: Say) -> None:
    """One model that TorchServe refuses does not keep the others from being healed."""
    with suppress(OSError):  # a log that is on a full disk does not end the watch
        say(str(action))
    with _told(say):
        apply([action], management)


@contextmanager
def _told(say: Say) -> Iterator[None]:
    try:
        yield
    except ManagementError as error:
        with suppress(OSError):
            say(str(error))
