"""Formats survive documents that are nearly right, or are written to hurt them."""

from __future__ import annotations

import re
import sys

import pytest

from tests.fuzz.mutations import pack_parts
from tests.fuzz.seeds import ENDINGS, make_seed
from tests.fuzz.shapes import SHAPES
from tests.fuzz.trials import Limits, run_apart, try_document
from tests.programs import run


@pytest.mark.faults
def test_a_minute_of_changed_documents():
    run(sys.executable, "-m", "tests.fuzz", "--minutes", 1, limit_s=580)


@pytest.mark.faults
@pytest.mark.parametrize(
    "shape", SHAPES, ids=lambda shape: f"{shape.ending[1:]}: {shape.name}"
)
def test_a_hostile_document_takes_little(shape):
    assert try_document(shape.ending, shape.write(shape.size)) == ""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_seed_is_a_document_with_texts(ending):
    assert try_document(ending, pack_parts(make_seed(ending))) == ""


def test_a_fault_is_told():
    def fail() -> None:
        raise KeyError("a")

    assert "KeyError: 'a'" in run_apart(fail)


def work_for_ever() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "fault"),
    [
        (lambda: bytearray(300 << 20), "MemoryError"),
        (work_for_ever, "ended by SIGXCPU"),
    ],
    ids=["memory", "CPU"],
)
def test_what_takes_too_much_is_told(work, fault):
    assert re.search(fault, run_apart(work, Limits(cpu_s=1)))
