"""How TorchServe is waited for and brought to what the map says."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from catalog import Model, TranslationSection
from deploy import torchserve
from deploy.supervision import Supervision
from tests.torchserve_backend.fakes import FakeManagement
from torchserve_backend.management import ManagementError, Registered
from torchserve_backend.registrar import Desired


class FakeSupervision(Supervision):
    """Says how TorchServe is."""

    def __init__(self, state: str) -> None:
        self.state = state

    def states(self) -> dict[str, str]:
        return {"torchserve": self.state}


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


class SlowManagement(FakeManagement):
    """Answers from the third time."""

    def names(self) -> list[str]:
        self.calls.append("names")
        if len(self.calls) < 3:
            raise ManagementError("not yet")
        return []


@pytest.mark.usefixtures("_hurried")
def test_torchserve_is_waited_for_until_it_answers():
    management = SlowManagement()
    supervision = FakeSupervision("STARTING")
    torchserve.wait_for_torchserve(supervision, management)
    assert len(management.calls) == 3


def test_a_torchserve_that_was_given_up_is_not_waited_for():
    supervision = FakeSupervision("FATAL")
    with pytest.raises(TimeoutError, match="TorchServe did not start"):
        torchserve.wait_for_torchserve(supervision, SlowManagement())


def make_model(name: str) -> Model:
    return Model(name, "translation", (name,), ("cpu",), TranslationSection())


def test_the_difference_is_mended_and_what_goes_is_named():
    said = StringIO()
    console = Console(file=said, markup=False, soft_wrap=True)
    version = "1.0-7f411872"
    desired = [
        Desired(make_model(name), f"{name}.mar", version) for name in ("ko", "fr")
    ]
    found = {name: Registered(name, version, 64, 100, 1, 1, 0) for name in ("fr", "de")}
    management = FakeManagement(found)
    torchserve.mend(desired, management, console)
    assert said.getvalue().splitlines() == [
        "1 of 2 models already registered",
        "remove de: the map does not name it",
    ]
    assert management.calls == [
        f"unregister de {version}",
        "register ko.mar ko 64 100 1",
    ]
