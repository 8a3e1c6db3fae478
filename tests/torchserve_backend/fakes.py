"""TorchServe's management API as a client that takes notes, and models that a map wants."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

from catalog import Model, TranslationSection
from torchserve_backend.archiver import Desired
from torchserve_backend.management import Management, ManagementError, Registered


def want(name: str, version: str = "1.0-ab", **settings: Any) -> Desired:
    """A model for a language, as a map with these settings wants it."""
    section = TranslationSection(**settings)
    model = Model(name, "translation", (name,), ("cpu",), section)
    return Desired(model, version)


def runs(name: str = "ko", version: str = "1.0-ab", **changes: int) -> Registered:
    """A model as TorchServe describes it, with one worker that is ready."""
    found = Registered(name, version, 64, 100, 1, 1, 0, life="")
    return replace(found, **changes)  # type: ignore[arg-type]


class FakeManagement(Management):
    """Writes changes down. It knows what is registered, the versions beside the defaults, and
    the archives of the store with other versions than are wanted; `refuses` says at which
    changes it raises ManagementError, and `looks` what it raises, look by look, instead of
    describing a model."""

    def __init__(self, *found: Registered, refuses: tuple[str, ...] = ()) -> None:
        super().__init__("http://nowhere.invalid", Path("none"))
        self.found = {model.name: model for model in found}
        self.spares: dict[tuple[str, str], Registered] = {}
        self.store: dict[str, str] = {}
        self.looks: Iterator[Exception | None] = repeat(None)
        self.calls: list[str] = []
        self._refuses = refuses

    def names(self) -> list[str]:
        return list(self.found)

    def versions(self, name: str) -> list[str]:
        spares = [version for spare, version in self.spares if spare == name]
        return [self.found[name].version, *spares]

    def describe(self, name: str, version: str = "") -> Registered | None:
        if error := next(self.looks):
            raise error
        found = self.found.get(name)
        is_default = not version or (found and found.version == version)
        return found if is_default else self.spares.get((name, version))

    def register(self, desired: Desired) -> None:
        self._note(f"register {desired.archive}")
        version = self.store.get(desired.archive, desired.version)
        default = self.found.setdefault(desired.name, runs(desired.name, version))
        if default.version != version:
            self.spares[desired.name, version] = runs(desired.name, version)

    def set_default(self, name: str, version: str) -> None:
        self._note(f"default {name} {version}")
        before = self.found[name]
        self.found[name] = self.spares.pop((name, version), before)
        self.spares[name, before.version] = before

    def scale(self, name: str, workers: int, *, wait: bool = False) -> None:
        self._note(f"scale {name} {workers}" + (" wait" if wait else ""))

    def unregister(self, name: str, version: str) -> None:
        self._note(f"unregister {name} {version}")
        if not self.spares.pop((name, version), None):
            del self.found[name]

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call.startswith(self._refuses):
            raise ManagementError(f"refused: {call}")
