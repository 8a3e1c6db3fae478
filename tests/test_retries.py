"""A second try is an exception: it has a reason, and it ends."""

from __future__ import annotations

from datetime import date, timedelta

from deploy.stack import ROOT
from tests.retries import RETRIED


def test_retried_tests_are_few_and_recent_and_have_a_reason():
    assert len(RETRIED) <= 5
    for test, (reason, since) in RETRIED.items():
        assert (ROOT / test.partition("::")[0]).exists()
        assert reason
        assert date.today() - since <= timedelta(days=31)
