"""Each operation on the disk is killed, fails, finds no room, or comes after another process
has done the same; then the program starts again, and nothing is lost, torn or billed twice.
"""

import sys

import pytest

from tests.durability.operations import Fault
from tests.programs import run

#: The least number of operations of each, so that none goes unseen.
SCENARIOS = {
    "files": 10,
    "bulk": 10,
    "accounts": 10,
    "tables": 3,
    "glossaries": 4,
    "documents": 40,
    "conversions": 10,
    "downloads": 10,
    "bundles": 10,
}


@pytest.mark.faults
@pytest.mark.parametrize(("scenario", "least"), SCENARIOS.items(), ids=SCENARIOS)
def test_a_fault_at_any_operation_loses_nothing(scenario: str, least: int):
    """The program counts the operations that each fault has met, and fails where one has broken
    a promise."""
    command = (sys.executable, "-m", "tests.durability.running", scenario, *Fault)
    assert min(map(int, run(*command, limit_s=600).split())) >= least
