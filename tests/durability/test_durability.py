"""Each disk operation is killed, fails, finds the disk full, or comes after another process has
done the same; then the program starts again, and nothing is lost, torn or billed twice."""

import sys

import pytest

from tests.durability.operations import Fault
from tests.programs import run

#: The minimum number of operations of each scenario, so that none is missed.
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
    """The program prints each fault's number of operations, or fails at a broken promise."""
    command = (sys.executable, "-m", "tests.durability.running", scenario, *Fault)
    assert min(map(int, run(*command, limit_s=600).split())) >= least
