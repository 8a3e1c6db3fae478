"""The watch beside TorchServe: what it heals, what it leaves alone, and what it survives."""

from __future__ import annotations

import pytest

from tests.torchserve_backend.fakes import FakeManagement, runs, want
from torchserve_backend.management import ManagementError, Registered
from torchserve_backend.registrar import heal_forever


class Ended(Exception):
    """Ends the loop that never ends."""


class Unlucky(FakeManagement):
    """Refuses to register Korean, and ends after a number of looks."""

    def __init__(self, looks: int, *found: Registered) -> None:
        super().__init__(*found, refuses=("register ko.mar",))
        self.looks = looks

    def describe(self, name: str) -> Registered | None:
        self.looks -= 1
        if self.looks < 0:
            raise Ended
        return super().describe(name)


def test_watching_heals_what_it_can_and_leaves_what_was_changed_by_hand():
    wanted = list(map(want, ("ko", "fr", "vi", "de", "it")))
    found = (
        Registered("vi", "1.0-ab", 8, 100, 1, 1, 0),
        runs("de", workers=0),
        Registered("it", "1.0-ab", 64, 100, 0, 0, 0),
        runs("pt", "1.0-7f411872"),
    )
    # One look at each, and one more at French once it has been registered.
    management = Unlucky(2 * (len(wanted) + 1), *found)
    said: list[str] = []
    with pytest.raises(Ended):
        heal_forever(wanted, management, said.append, every_s=0, patience_s=-1)
    once = ["register ko.mar", "register fr.mar", "scale de 0 wait", "scale de 1"]
    assert management.calls == [*once, *once]
    assert said[:2] == ["register ko: not registered", "refused: register ko.mar"]


def test_watching_survives_a_torchserve_that_is_down_and_a_full_disk():
    class Down(FakeManagement):
        looks = 0

        def describe(self, name: str) -> Registered | None:
            self.looks += 1
            if self.looks > 3:
                raise Ended
            raise ManagementError("down")

    def say(text: str) -> None:
        assert text == "down"
        raise OSError("the disk is full")

    with pytest.raises(Ended):
        heal_forever([want("ko")], Down(), say, every_s=0)
