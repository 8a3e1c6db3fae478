"""A management client that records calls, and models as in a map and as in TorchServe."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

from catalog import Model, TranslationSection
from torchserve_backend.archiver import Desired
from torchserve_backend.management import Management, ManagementError, Registered


def want(name: str, version: str = "1.0-ab", **settings: Any) -> Desired:
    """A language's model as a map with these settings describes it."""
    section = TranslationSection(**settings)
    model = Model(name, "translation", (name,), ("cpu",), section)
    return Desired(model, version)


def runs(name: str = "ko", version: str = "1.0-ab", **changes: int) -> Registered:
    """A model as TorchServe describes it, with one ready worker."""
    found = Registered(name, version, 64, 100, 1, 1, 0, life="")
    return replace(found, **changes)  # type: ignore[arg-type]


class FakeManagement(Management):
    """A recorder of changes. It has the registered models, their `spares` (versions besides the
    default), and the `store` of archives whose versions are not the desired ones. A change that
    begins with one of `refuses` raises ManagementError; each description of a model takes the
    next of `looks`, and raises it if it is an error."""

    def __init__(self, *found: Registered, refuses: tuple[str, ...] = ()) -> None:
        super().__init__("http://nowhere.invalid", Path("none"))
        self.found = {model.name: model for model in found}
        self.spares: dict[tuple[str, str], Registered] = {}
        self.store: dict[str, str] = {}
        self.looks: Iterator[BaseException | None] = repeat(None)
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
            if len(self.versions(name)) > 1:
                raise ManagementError("Can't remove default version")
            del self.found[name]

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call.startswith(self._refuses):
            raise ManagementError(f"refused: {call}")
