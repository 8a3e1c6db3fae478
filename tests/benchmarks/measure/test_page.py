"""What the benchmark of the page makes of its measurements."""

from __future__ import annotations

from benchmarks.measure.page import describe, tabulate

MEASURED = [(100.0, 10.0), (140.0, 30.0), (120.0, 20.0)]


def test_the_result_says_whether_the_promise_is_held():
    assert describe(MEASURED) == "The page takes 140 ms at most: within 150 ms."
    assert describe([*MEASURED, (151.0, 1.0)]).endswith("above 150 ms.")


def test_the_page_and_the_api_are_rows():
    assert tabulate(MEASURED).rows == (
        ("the page", "120 (100–140)"),
        ("the API", "20.0 (10.0–30.0)"),
    )
