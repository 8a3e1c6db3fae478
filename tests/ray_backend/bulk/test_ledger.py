"""What a worker notes before it works, and what the next one makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_backend.bulk.folder import FileJournal
from ray_backend.bulk.ledger import Ledger


class Died(BaseException):
    """The end of a process."""


def run_until_done(
    path: Path, count: int, deadly: set[int]
) -> tuple[list[int | None], int]:
    """The answers, and how many processes they took."""
    deaths = 0

    def work(start: int, stop: int) -> Sequence[int]:
        if deadly & set(range(start, stop)):
            raise Died
        return range(start, stop)

    while True:
        try:
            return Ledger(FileJournal(path)).run(count, work), deaths
        except Died:
            deaths += 1


@given(st.integers(0, 40), st.sets(st.integers(0, 39), max_size=3))
def test_only_what_ends_its_process_each_time_has_no_answer(count, deadly):
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder, "ledger")
        answers, _ = run_until_done(path, count, deadly)
        assert answers == [None if n in deadly else n for n in range(count)]
        assert not path.exists()


@pytest.mark.parametrize(
    ("deaths", "calls"),
    [(0, [(0, 8)]), (1, [(0, 8)]), (2, [(0, 4), (4, 8)])],
    ids=["at first", "once ended by chance", "divided"],
)
def test_a_range_is_divided_once_it_has_ended_two_processes(tmp_path, deaths, calls):
    path = tmp_path / "ledger"
    path.write_text("begin 0 8\n" * deaths)
    asked: list[tuple[int, int]] = []

    def work(start: int, stop: int) -> range:
        asked.append((start, stop))
        return range(start, stop)

    assert Ledger(FileJournal(path)).run(8, work) == [*range(8)]
    assert asked == calls


def test_an_item_alone_is_given_up_late(tmp_path):
    """Two interruptions of a run are no fault of the video under way."""
    answers, deaths = run_until_done(tmp_path / "ledger", 1, {0})
    assert (answers, deaths) == ([None], 5)


def test_what_ended_well_is_not_blamed(tmp_path):
    path = tmp_path / "ledger"
    path.write_text("begin 0 1\nend 0 1\n" * 5 + "begin 0")
    assert Ledger(FileJournal(path)).run(1, lambda *_: "a") == ["a"]
