"""Random faults on a real stack under load, and what must hold all the same."""

from __future__ import annotations

from tests.chaos.experiment import Report
from tests.chaos.load import BROKEN, PROBLEM, RIGHT
from tests.chaos.verdicts import has_grown


def test_every_request_gets_one_right_answer_or_a_problem_in_time(report: Report):
    assert not report.wrong_answers, report.explain(*report.wrong_answers)


def test_while_the_stack_is_up_most_requests_are_answered(report: Report):
    """The time without a stack after a kill depends on the machine."""
    up = {
        outcome: count
        for outcome, count in report.outcomes.items()
        if not outcome.startswith((BROKEN, f"{PROBLEM} 503"))
    }
    share = up.get(RIGHT, 0) / sum(up.values())
    assert share > 0.5, report.explain(f"{share:.0%} of the answers are right")


def test_whatever_was_hit_is_back(report: Report):
    assert not report.violations, report.explain(*report.violations)


def test_memory_is_what_it_was(report: Report):
    assert not has_grown(*report.memory_mb), report.explain()


def test_no_stranger_is_touched(report: Report):
    assert not report.hurt_strangers, report.explain(*report.hurt_strangers)


def test_nothing_that_people_sent_is_on_disk(report: Report):
    assert not report.traces, report.explain(*report.traces)
