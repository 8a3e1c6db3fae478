"""What the fairness benchmark makes of its rounds."""

from __future__ import annotations

from benchmarks.figures import Spread
from benchmarks.instruments.generator import Reply
from benchmarks.instruments.jobs import Job
from benchmarks.instruments.load import summarize
from benchmarks.measure.fairness import Round, describe, judge, tabulate


def make_reply(latency_s: float) -> Reply:
    return Reply(0, "200", latency_s, latency_s, 0.0)


def make_round(alone_s: float, loaded_s: float) -> Round:
    alone = summarize("closed", 1, 1.0, [make_reply(alone_s)])
    loaded = summarize("closed", 1, 1.0, [make_reply(loaded_s)])
    return Round(alone, loaded, [Job("", "translating", 90, 30)])


def test_rounds_are_judged_by_their_95th_percentiles():
    ratio = judge([make_round(0.125, 0.25), make_round(0.125, 0.375)])
    assert ratio == Spread(2.5, 2, 3)


def test_the_result_says_whether_the_promise_is_held():
    assert describe(Spread(2.5, 2, 3.5)).endswith("within 3.")
    assert describe(Spread(3.5, 3, 4)).endswith("over 3.")
    assert describe(None) == "No sentence was translated."


def test_the_table_says_what_became_of_the_documents():
    alone, loaded = tabulate([make_round(0.125, 0.25)]).rows
    assert alone == ("1", "nothing", "1", "125", "125", "125", "0")
    assert loaded[1] == "documents: 30 of 90 texts"
