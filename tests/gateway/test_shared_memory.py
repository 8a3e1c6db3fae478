"""Memory that processes share: places that end with their process, locks and tables."""

import os
from pathlib import Path

from gateway.shared_memory import SharedTable, lock_file, take_place


def test_a_place_is_free_again_when_its_process_has_ended(tmp_path: Path):
    places = [take_place(tmp_path) or (-1, -1) for _ in range(2)]
    assert [place for _, place in places] == [0, 1]
    assert lock_file(tmp_path / "0.lock") is None
    os.close(places[0][0])  # as the system does
    _, place = take_place(tmp_path) or (-1, -1)
    assert place == 0


def test_a_table_grows_and_what_was_cut_before_stays_valid(tmp_path: Path):
    first, second = (SharedTable(tmp_path / "table", 1) for _ in range(2))
    row = first.find(10**12)
    for number in range(5000):
        second.find(number)[0] = number
    row[0] = 5
    assert second.find(10**12)[0] == 5
    assert first.find(4999)[0] == 4999
    assert sum(first.read_column(0)) == sum(range(5000)) + 5
    assert SharedTable(tmp_path / "table", 1).read_ids() == [10**12, *range(5000)]
