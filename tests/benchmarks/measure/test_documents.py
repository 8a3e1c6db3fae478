"""How documents are compared with lists, and sentences beside documents with those alone."""

from __future__ import annotations

from benchmarks.figures import Spread
from benchmarks.instruments.generator import Reply
from benchmarks.instruments.load import LoadFigures, summarize
from benchmarks.measure import documents


def make_load(latency_s: float) -> LoadFigures:
    reply = Reply(0, "200", latency_s, latency_s, 0.0)
    return summarize("closed", 1, 1.0, [reply])


def test_a_document_is_compared_with_the_lists_of_its_round():
    rates = {
        documents.LISTS: [100.0, 200.0, 400.0],
        documents.DOCUMENT: [90.0, 190.0, 400.0],
    }
    found = documents.describe_rates(rates)
    assert found.results["ratio"] == Spread(0.95, 0.9, 1.0)
    assert [row[0] for row in found.table.rows] == [documents.LISTS, documents.DOCUMENT]


def test_rounds_are_compared_by_their_95th_percentiles():
    loads = {
        documents.ALONE: [make_load(0.125), make_load(0.125)],
        documents.BESIDE: [make_load(0.25), make_load(0.375)],
    }
    found = documents.describe_fairness(
        loads, [[documents.DocumentProgress("", "translating", 90, 30)]]
    )
    assert found.results["p95_ratio"] == Spread(2.5, 2, 3)
    assert [row[:2] for row in found.table.rows] == [
        *(
            ("1", documents.ALONE),
            ("1", documents.BESIDE),
            ("2", documents.ALONE),
            ("2", documents.BESIDE),
        )
    ]
    assert found.table.rows[1][3:6] == ("250", "250", "250")


def test_without_answers_there_is_no_ratio():
    nothing = summarize("closed", 1, 1.0, [])
    found = documents.describe_fairness(
        {documents.ALONE: [nothing], documents.BESIDE: [nothing]}, []
    )
    assert found.results["p95_ratio"] is None
