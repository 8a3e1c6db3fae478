"""Formats survive documents that are nearly right, or are written to hurt them."""

from __future__ import annotations

import sys

import pytest

from tests.fuzz.shapes import ENDINGS, make_seed, pack_parts
from tests.fuzz.trials import try_document
from tests.programs import run

pytestmark = pytest.mark.faults


def test_half_a_minute_of_hostile_and_changed_documents():
    run(sys.executable, "-m", "tests.fuzz", "--minutes", 0.5, limit_s=580)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_seed_is_a_document_with_texts(ending):
    assert try_document(ending, pack_parts(make_seed(ending))) == ""
