"""The lists of tests that a run reads are kept up."""

from __future__ import annotations

from datetime import date, timedelta

from deploy.stack import ROOT
from tests.conftest import SLOW
from tests.retries import RETRIED


def test_retried_tests_are_few_and_recent_and_have_a_reason():
    assert len(RETRIED) <= 5
    for test, (reason, since) in RETRIED.items():
        assert (ROOT / test.partition("::")[0]).exists()
        assert reason
        assert date.today() - since <= timedelta(days=31)


def test_slow_files_exist():
    assert [name for name in SLOW if not (ROOT / f"tests/{name}.py").exists()] == []
