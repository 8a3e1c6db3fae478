"""A document's fate when its worker fails, exceeds a limit, or does its work."""

from __future__ import annotations

import pytest

from documents.sandbox import LimitExceeded, Sandbox, WorkerEnded
from documents.translation import DocumentTranslation
from tests.documents.conftest import InProcess

MANY = [f"text {number}" for number in range(300)]
KEPT_S = 60.0


class Failing(InProcess):
    """Workers that end in turn in a step as they are told, and then as they should."""

    def __init__(self, *ends: Exception, step: str = "read") -> None:
        super().__init__()
        self.ends, self.step = list(ends), step

    def run(self, request, allowance, check):
        if self.ends and request["step"] == self.step:
            raise self.ends.pop(0)
        return super().run(request, allowance, check)


@pytest.mark.parametrize(
    ("end", "slug", "words"),
    [
        (LimitExceeded("memory"), "document-too-large", "more than 512 MB of memory"),
        (LimitExceeded("bytes"), "document-too-large", "more than 32 MB in its files"),
        (LimitExceeded("cpu"), "document-too-slow", "30 s of a processor's time"),
        (LimitExceeded("time"), "document-too-slow", "more than 120 s,"),
        (WorkerEnded(), "damaged-document", "have ended 3 times"),
    ],
    ids=["memory", "bytes", "cpu", "time", "killed"],
)
def test_the_reason_for_which_a_document_is_given_up_is_told(
    add, asking, stopping, gateway, end, slug, words
):
    document = add(*MANY)
    DocumentTranslation(document, asking, Failing(end, end, end), stopping).run(KEPT_S)
    error = document.read_state().error or {}
    assert error["type"] == f"urn:babelgate:{slug}"
    assert words in error["detail"]
    assert gateway.asked == []
    assert not document.source.exists()


@pytest.mark.parametrize("step", ["read", "write"])
@pytest.mark.parametrize("end", [WorkerEnded(), LimitExceeded("time")])
def test_a_worker_that_is_killed_or_stands_still_is_replaced(
    add, asking, stopping, end, step
):
    document, sandbox = add(*MANY), Failing(end, end, step=step)
    DocumentTranslation(document, asking, sandbox, stopping).run(KEPT_S)
    lines = document.result.read_text().splitlines()
    assert lines[1:] == [text.upper() for text in MANY]


def test_a_real_worker_has_the_memory_of_a_document(add, asking, stopping, monkeypatch):
    sandbox = Sandbox("documents.worker")
    try:
        large = add(*(f"Paragraph {n}.\n" for n in range(30_000)), name="a.md")
        monkeypatch.setattr("documents.translation.MEMORY_BYTES", 8 << 20)
        DocumentTranslation(large, asking, sandbox, stopping).run(KEPT_S)
    finally:
        sandbox.close()
    error = large.read_state().error or {}
    assert error["type"] == "urn:babelgate:document-too-large"
