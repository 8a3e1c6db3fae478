"""Formats survive documents that are nearly right, or are written to hurt them."""

from __future__ import annotations

import sys

import pytest

from documents.formats import find_format
from documents.formats.format import DocumentContext
from tests.fuzz.shapes import ENDINGS, make_seed, pack_parts
from tests.fuzz.trials import try_document
from tests.programs import run

pytestmark = pytest.mark.faults


def test_hostile_and_changed_documents():
    # The same ones each time: new ones are for a person who can look at what they find.
    same = ("--seed", 1, "--most", 8, "--minutes", 60)
    run(sys.executable, "-m", "tests.fuzz", *same, limit_s=580)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_seed_is_a_document_with_texts(ending, tmp_path):
    content, form = pack_parts(make_seed(ending)), find_format(f"a{ending}")
    seed, context = tmp_path / f"a{ending}", DocumentContext("de")
    seed.write_bytes(content)
    texts = list(form.read(seed, context))
    assert texts
    form.write(seed, iter(texts), tmp_path / f"b{ending}", context)
    assert try_document(ending, content) == ""
