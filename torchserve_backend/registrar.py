"""Compares the map with TorchServe's models, and resolves the differences. `plan` is pure;
`apply` acts and may be repeated.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from contract.tasks import TRANSLATION
from torchserve_backend.archiver import Desired, is_ours
from torchserve_backend.management import Management, ManagementError, Registered

#: Seconds between two checks of the watch.
_EVERY_S = 3.0
#: Before a version ends: the longest wait for its pending rows, the interval of checks, and the
#: wait for a batch in progress, which TorchServe does not report. In seconds.
_DRAIN_S, _LOOK_S, _BATCH_S = 30.0, 0.1, 1.0
#: Seconds without a worker before the watch revives a model; a start must not take longer.
_PATIENCE_S = 900.0

Say = Callable[[str], object]
#: The kind of an action.
RegistrationStep = Literal["register", "replace", "scale", "revive", "remove"]


@dataclass(frozen=True)
class Action:
    """One step on one model, and the reason for it."""

    step: RegistrationStep
    name: str
    reason: str
    #: None if the model is to be removed.
    desired: Desired | None = None

    def __str__(self) -> str:
        return f"{self.step} {self.name}: {self.reason}"


def plan(
    desired: Sequence[Desired],
    actual: Mapping[str, Registered | None],
    *,
    dead: Iterable[str] = (),
) -> list[Action]:
    """Return the actions that turn `actual` (by name; None if not registered) into `desired`.

    Our other models are removed first, because their memory may be needed. `dead` names models
    without a worker, on which TorchServe must have given up; they are revived. A model that an
    operator has scaled to zero is not dead.
    """
    given_up = set(dead)
    wanted = {model.name for model in desired}
    new = [model for model in desired if not actual.get(model.name)]
    actions = [
        Action("remove", name, _explain_removal(name, new))
        for name, found in actual.items()
        if found and name not in wanted and is_ours(found.version)
    ]
    for model in desired:
        found = actual.get(model.name)
        if difference := _compare(model, found, is_dead=model.name in given_up):
            step, reason = difference
            actions.append(Action(step, model.name, reason, model))
    return actions


def _explain_removal(name: str, new: Sequence[Desired]) -> str:
    """Explain a model's removal: after a change of placement, new models have its languages."""
    heirs = [each.name for each in new if name in each.model.languages]
    if name.startswith(f"{TRANSLATION}-"):  # its languages are unknown
        heirs = [each.name for each in new if each.model.languages]
    return f"replaced by {' '.join(heirs)}" if heirs else "the map does not name it"


def _compare(
    desired: Desired, found: Registered | None, *, is_dead: bool
) -> tuple[RegistrationStep, str] | None:
    settings, workers = desired.model.settings, desired.model.workers
    if found is None:
        return "register", "not registered"
    if is_dead and not found.is_ready and found.min_workers:
        return "revive", "no worker, and TorchServe has stopped trying"
    if found.version != desired.version:
        return "replace", f"runs {found.version}, the map asks for {desired.version}"
    for name in ("batch_size", "max_batch_delay"):
        is_value, should_be = getattr(found, name), getattr(settings, name)
        if is_value != should_be:
            return "replace", f"{name} is {is_value}, the map says {should_be}"
    if found.min_workers != workers:
        return "scale", f"{found.min_workers} workers, the map says {workers}"
    return None


def observe(
    names: Iterable[str], management: Management
) -> dict[str, Registered | None]:
    """Return TorchServe's state of each model."""
    return {name: management.describe(name) for name in names}


def apply(actions: Iterable[Action], management: Management) -> None:
    """Perform the actions one after the other, so that only one model at a time has two
    versions in memory. Workers start in the background.

    Raises ManagementError at the first action that TorchServe refuses, or if the archive in
    its store is not the map's.
    """
    for action in actions:
        step, desired = action.step, action.desired
        if (
            step in ("replace", "remove")
            and (found := management.describe(action.name))
            and (desired is None or desired.version == found.version)
        ):
            # TorchServe refuses to end the default version before the others.
            versions = management.versions(action.name)
            for version in sorted(versions, key=found.version.__eq__):
                _end(action.name, version, management)
        if desired is None:
            continue
        match step:
            case "register" | "replace":
                _register(desired, management)
            case "scale":
                management.scale(desired.name, desired.model.workers)
            case "revive":
                _revive(desired, management)


def retire(desired: Iterable[Desired], management: Management) -> None:
    """End the models' other versions, perhaps left by a killed `up`. Raises ManagementError."""
    for model in desired:
        for version in management.versions(model.name):
            if version != model.version:
                _end(model.name, version, management)


def _end(name: str, version: str, management: Management) -> None:
    """End a version when its rows have been answered or have waited too long."""
    give_up_at = time.monotonic() + _DRAIN_S
    while (found := management.describe(name, version)) and found.is_ready:
        if not found.pending_requests or time.monotonic() > give_up_at:
            time.sleep(_BATCH_S)
            break
        time.sleep(_LOOK_S)
    management.unregister(name, version)


def _register(desired: Desired, management: Management) -> None:
    management.register(desired)
    versions = management.versions(desired.name)
    if desired.version not in versions:
        raise ManagementError(
            f"{desired.archive} in TorchServe's store is {versions[-1]}, the map asks for "
            f"{desired.version}: write the archives first"
        )
    if len(versions) > 1:
        management.set_default(desired.name, desired.version)
        retire([desired], management)


def _revive(desired: Desired, management: Management) -> None:
    """Scale to zero and back, as setting the same number of workers does nothing. If the first
    call times out, the second still follows: the model must not stay without workers."""
    try:
        management.scale(desired.name, 0, wait=True)
    finally:
        management.scale(desired.name, desired.model.workers)


def poll_ready(
    desired: Sequence[Desired], management: Management, timeout_s: float
) -> Iterator[set[str]]:
    """Yield the names of the ready models repeatedly, until all are ready. TorchServe may fail
    to answer in between, as it does on a busy machine.

    Raises TimeoutError if some are not ready after `timeout_s`, ManagementError if TorchServe
    does not answer then.
    """
    give_up_at = time.monotonic() + timeout_s
    models = {each.name: each.model for each in desired}
    ready = set[str]()
    while True:
        is_last = time.monotonic() > give_up_at
        try:
            found = observe(models, management).items()
            ready = {
                name for name, state in found if state and state.serves(models[name])
            }
        except ManagementError:
            if is_last:
                raise
        yield ready
        late = models.keys() - ready
        if not late:
            return
        if is_last:
            names = ", ".join(sorted(late))
            raise TimeoutError(f"not ready after {timeout_s:.0f} s: {names}")
        time.sleep(0.5)


class WorkerWatch:
    """A record of the time since which each model has had no worker."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._missing_since: dict[str, float] = {}

    def find_dead(
        self, actual: Mapping[str, Registered | None], now: float
    ) -> set[str]:
        """Return the registered models that should have a worker and have had none for longer
        than the limit. Each is returned once, and then gets the same time again."""
        since = {
            name: self._missing_since.get(name, now)
            for name, found in actual.items()
            if found and not found.is_ready and found.min_workers
        }
        dead = {name for name in since if now - since[name] > self._patience_s}
        self._missing_since = since | dict.fromkeys(dead, now)
        return dead


def plan_change(desired: Sequence[Desired], management: Management) -> list[Action]:
    """Return the actions for all present differences from the map, including models that it no
    longer names.

    Raises ManagementError if TorchServe does not answer.
    """
    return plan(desired, observe(management.names(), management))


def plan_healing(
    desired: Sequence[Desired], management: Management, watch: WorkerWatch
) -> list[Action]:
    """Return the actions that register missing models and revive dead ones at present. Models
    that an operator has changed are left alone.

    Raises ManagementError if TorchServe does not answer.
    """
    actual = observe((each.name for each in desired), management)
    dead = watch.find_dead(actual, time.monotonic())
    return [
        action
        for action in plan(desired, actual, dead=dead)
        if action.step in ("register", "revive")
    ]


def heal_forever(desired: Sequence[Desired], management: Management, say: Say) -> None:
    """Register missing models, for example after a restart of TorchServe, and revive dead ones,
    forever. Models that an operator has changed are left alone."""
    watch = WorkerWatch(_PATIENCE_S)
    while True:
        with _told(say):
            for action in plan_healing(desired, management, watch):
                _heal(action, management, say)
        time.sleep(_EVERY_S)


def _heal(action: Action, management: Management, say: Say) -> None:
    """Heal one model. If TorchServe refuses, the others are still healed."""
    with suppress(OSError):  # a log on a full disk must not end the watch
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
