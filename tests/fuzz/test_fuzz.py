"""Formats survive nearly valid documents and hostile ones. With `FUZZ=100` in the environment a
hundred new ones of each format are tried, otherwise the same few."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from documents.sandbox import Sandbox
from tests.documents.formats.translating import read
from tests.fuzz.changes import draw_documents
from tests.fuzz.shapes import ENDINGS, SHAPES, make_seed, pack_parts
from tests.fuzz.trials import find_most_bytes, try_document

pytestmark = pytest.mark.faults

MOST = int(os.environ.get("FUZZ", 10))
CHANGED = settings(
    max_examples=MOST,
    derandomize="FUZZ" not in os.environ,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
HOSTILE = [
    shape
    for ending in ENDINGS
    for shape in [each for each in SHAPES if each.ending == ending][: MOST // 2]
]


@pytest.fixture(scope="module")
def check() -> Iterator[Callable[[str, bytes], None]]:
    """A function that tries a document and keeps a failed one; the smallest is kept last."""
    with closing(Sandbox("tests.fuzz.trials")) as sandbox:

        def check(ending: str, content: bytes) -> None:
            if fault := try_document(sandbox, ending, content):
                path = Path(f"run/fuzz/{sha256(content).hexdigest()[:12]}{ending}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                raise AssertionError(f"{path}\n{fault}")

        yield check


@pytest.mark.parametrize("shape", HOSTILE, ids=lambda s: f"{s.ending} {s.name}")
def test_a_hostile_document(check, shape):
    check(shape.ending, shape.write(find_most_bytes(shape.ending)))


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("ending", ENDINGS)
def test_changed_documents(check, ending):
    CHANGED(given(draw_documents(ending))(lambda content: check(ending, content)))()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_seed_is_a_document_with_texts(check, ending):
    content = pack_parts(make_seed(ending))
    assert read(f"a{ending}", content)
    check(ending, content)
