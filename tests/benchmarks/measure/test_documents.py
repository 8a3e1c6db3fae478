"""What the benchmark of documents makes of its rounds."""

from __future__ import annotations

from benchmarks.figures import Spread
from benchmarks.measure.documents import JOB, LISTS, describe, judge, tabulate

RATES = {LISTS: [100.0, 200.0, 400.0], JOB: [90.0, 190.0, 400.0]}


def test_a_document_is_compared_with_the_lists_of_its_round():
    assert judge(RATES) == Spread(0.95, 0.9, 1.0)


def test_the_result_says_whether_the_promise_is_held():
    assert describe(Spread(0.95, 0.9, 1)).endswith("within 0.9.")
    assert describe(Spread(0.8, 0.7, 1)).endswith("below 0.9.")


def test_each_way_is_a_row():
    assert [row[0] for row in tabulate(RATES).rows] == [LISTS, JOB]
