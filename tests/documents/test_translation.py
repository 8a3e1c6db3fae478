"""A document is translated in order despite faults of programs, gateway, disk and workers."""

import time
from collections.abc import Callable
from contextlib import closing
from unittest.mock import Mock

import pytest

from clients.server import RetryPolicy
from documents.formats.format import Format
from documents.pieces import DocumentJournal, TextPiece, divide
from documents.sandbox import LimitExceeded, Sandbox, WorkerEnded
from documents.storage import DocumentFolder, Gone, State
from documents.translation import DocumentTranslation, WorkerStopped
from tests.documents.conftest import DAMAGED, take_step
from tests.fake_api import Failure, FakeApi

#: More texts than one request has.
MANY = [f"text {number}" for number in range(1000)]
KEPT_S = 60.0


class Failing:
    """A `take_step` that raises each of `ends` once in a certain step, and then works."""

    def __init__(self, *ends: Exception, step: str = "read") -> None:
        self.ends, self.step = list(ends), step

    def __call__(self, request, allowance, check):
        if self.ends and request["step"] == self.step:
            raise self.ends.pop(0)
        return take_step(request, allowance, check)


@pytest.fixture
def run_one(asking, stopping):
    def run_one(document, take_step=take_step):
        DocumentTranslation(document, asking, take_step, stopping).run(KEPT_S)
        return document.read_state()

    return run_one


def read_result(document: DocumentFolder) -> tuple[str, list[str]]:
    first, *rest = document.result.read_text().splitlines()
    return first, rest


def test_a_document_is_translated_in_its_order(add, run_one, gateway):
    document = add(*MANY)
    state = run_one(document)
    assert read_result(document) == ("de", [text.upper() for text in MANY])
    assert (state.status, state.texts, state.texts_done) == ("done", 1000, 1000)
    assert state.characters == sum(map(len, MANY))
    assert state.media_type == "text/x-lines"
    assert sorted(gateway.texts) == sorted(MANY)
    assert time.time() < state.expires_at <= time.time() + KEPT_S
    names = {path.name for path in document.folder.iterdir()}
    assert names == {"document.json", "state.json", "result.lines"}


def test_a_document_without_texts_asks_for_nothing(add, run_one, gateway):
    document = add(content=b"", name="empty.lines")
    assert run_one(document).status == "done"
    assert gateway.asked == []


def test_the_gateway_is_told_for_whom_it_translates(add, run_one, gateway):
    run_one(add("one", owner="0123456789ab", glossary="terms"))
    (asked,) = gateway.asked
    assert asked.body == {
        "src_text": ["one"],
        "src_lang": "en",
        "tgt_lang": "de",
        "format": "text",
        "glossary": "terms",
    }
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert headers["x-real-ip"] == "10.1.2.3"
    assert headers["x-babelgate-key-id"] == "0123456789ab"
    assert headers["x-babelgate-worker"] == "secret"


def test_a_language_that_is_not_named_is_identified_once(add, run_one, gateway):
    document = add(*MANY, src_lang=None)
    assert run_one(document).src_lang == "en"
    assert read_result(document)[0] == "de"
    first, *others = gateway.asked
    assert (first.path, first.body["src_text"][:13]) == ("/identify", "text 0 text 1")
    assert {asked.body["src_lang"] for asked in others} == {"en"}


@pytest.mark.parametrize("named", ["en", None], ids=["declared", "identified"])
def test_a_document_in_the_target_language_is_returned_as_it_is(
    add, run_one, gateway, named
):
    document = add("one", "two", src_lang=named, tgt_lang="en")
    state = run_one(document)
    assert document.result.read_text() == "one\ntwo\n"
    assert (state.status, state.texts_done) == ("done", 2)
    assert state.warnings == ("The document is already in 'en'.",)
    assert gateway.texts == []


def test_the_owner_is_told_what_the_formats_say(add, run_one, gateway, monkeypatch):
    def translate(source, ask, target, context):
        context.warn("read")
        translation = ask("one")
        if target:
            context.warn("written")
            target.write_text(translation)

    said = Format((".lines",), "text/x-lines", "text", translate)
    monkeypatch.setattr("documents.worker.find_format", lambda name: said)
    assert run_one(add("one")).warnings == ("read", "written")


@pytest.mark.parametrize(("count", "fault"), [(1, "fewer texts"), (3, "more texts")])
def test_another_number_of_translations_is_an_error(
    add, run_one, gateway, monkeypatch, count, fault
):
    def translate(source, ask, target, context):
        for _ in range(count if target else 2):
            ask("one")

    said = Format((".lines",), "text/x-lines", "text", translate)
    monkeypatch.setattr("documents.worker.find_format", lambda name: said)
    assert fault in run_one(add("one")).error["detail"]


def test_a_text_that_is_refused_is_told_with_its_place(add, run_one, gateway):
    def judge(texts):
        if "text 150" not in texts:
            return None
        place = texts.index("text 150")
        return Failure(422, "text-too-long", f"src_text[{place}]: too long.")

    gateway.judge = judge
    document = add(*MANY)
    state = run_one(document)
    assert state.status == "failed"
    assert state.error["detail"] == "Text 151 of the document: too long."
    assert state.error["type"] == "urn:babelgate:text-too-long"
    names = {path.name for path in document.folder.iterdir()}
    assert names <= {"document.json", "state.json", "lock"}


@pytest.mark.parametrize("texts", [MANY, ["one"], ["One sentence. " * 900]])
def test_a_refusal_of_the_key_is_told_as_it_is(add, run_one, gateway, texts):
    gateway.failures.extend([Failure(401, "invalid-key", "Revoked.")] * 20)
    error = run_one(add(*texts)).error
    assert (error["status"], error["detail"]) == (401, "Revoked.")


def test_pieces_go_on_where_they_stopped(add, run_one, gateway, stopping):
    long = " ".join(f"This is sentence number {n}." for n in range(9000))
    document = add(long)
    stop_after(gateway, 10, stopping.set)
    with pytest.raises(WorkerStopped):
        run_one(document)
    assert document.read_state().texts_done == 0
    before = len(document.journal.read_bytes().splitlines())
    assert before > 0
    gateway.asked.clear()
    gateway.pause = lambda: None
    stopping.clear()
    assert run_one(document).status == "done"
    assert read_result(document)[1] == [long.upper()]
    assert len(gateway.texts) == len(divide(long, "en", "text", 6000)) - before


def test_a_text_that_cannot_be_done_fails_with_its_place(
    add, run_one, gateway, monkeypatch
):
    patience = RetryPolicy(longest_delay_s=0.001)
    monkeypatch.setattr("documents.gateway._PATIENCE", patience)
    long = " ".join(f"This is sentence number {n}." for n in range(1000))
    bad = Failure(504, "deadline", "Too late.")
    gateway.judge = lambda texts: bad if "Bad" in " ".join(texts) else None
    error = run_one(add("one", "two", f"{long} Bad.", "four")).error
    assert error["detail"] == "Text 3 of the document: Too late."
    assert (error["type"], error["status"]) == ("urn:babelgate:deadline", 504)


def test_a_damaged_document_is_told_and_nothing_is_asked(add, run_one, gateway):
    document = add(content=b"fine\n" + DAMAGED)
    state = run_one(document)
    assert (state.status, state.error["detail"]) == ("failed", "Line 2 is damaged.")
    assert state.error["type"] == "urn:babelgate:damaged-document"
    assert gateway.asked == []
    assert not document.source.exists()


def test_a_result_stays_where_a_full_disk_keeps_it_from_being_told(
    add, run_one, monkeypatch, full_disk
):
    write_state = DocumentFolder.write_state

    def write(document: DocumentFolder, state: State) -> None:
        if state.is_over:
            full_disk()
        write_state(document, state)

    document = add(*MANY)
    with monkeypatch.context() as patch:
        patch.setattr(DocumentFolder, "write_state", write)
        with pytest.raises(OSError, match="No space"):
            run_one(document)
    assert document.source.exists()
    assert run_one(document).status == "done"
    assert document.result.exists()


def test_a_full_disk_is_told_and_leaves_room(add, run_one, monkeypatch, full_disk):
    monkeypatch.setattr(DocumentJournal, "add", full_disk)
    document = add(*MANY)
    error = run_one(document).error
    assert (error["type"], error["status"]) == ("urn:babelgate:disk-full", 507)
    names = {path.name for path in document.folder.iterdir()}
    assert names == {"document.json", "state.json"}


def test_a_fault_of_ours_is_told_without_the_text(add, run_one, monkeypatch, caplog):
    write = Mock(side_effect=ValueError("what the document says"))
    monkeypatch.setattr(DocumentJournal, "add", write)
    state = run_one(add("one"))
    assert state.error["type"] == "urn:babelgate:internal"
    assert "what the document says" not in caplog.text
    assert "ValueError at" in caplog.text


def stop_after(gateway: FakeApi, count: int, act: Callable[[], object]) -> None:
    """Call `act` when the gateway has received this many requests."""

    def pause() -> None:
        if len(gateway.asked) == count:
            act()

    gateway.pause = pause


@pytest.mark.parametrize("torn", [b"[1", b"[1, 2]\n", b"\0\0\n", b'[1,"x"]\n'])
def test_a_torn_journal_is_repaired(add, run_one, torn):
    document = add(*MANY)
    journal = DocumentJournal(document.journal)
    journal.add(map(TextPiece, MANY[:10]), [f"kept {n}" for n in range(10)])
    journal.close()
    with document.journal.open("ab") as file:
        file.write(torn)
    assert run_one(document).status == "done"
    expected = [f"kept {n}" for n in range(10)] + [text.upper() for text in MANY[10:]]
    assert read_result(document)[1] == expected


def test_a_deleted_document_stops(add, storage, gateway, run_one):
    document = add(*MANY)
    stop_after(gateway, 2, lambda: storage.delete(document))
    with pytest.raises(Gone):
        run_one(document)
    assert not document.folder.exists()


def test_a_document_that_ends_its_programs_is_given_up(add, run_one, monkeypatch):
    document = add(*MANY)
    killed = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(DocumentTranslation, "_translate", killed)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            run_one(document)
    state = run_one(document)
    assert (state.status, state.error["status"]) == ("failed", 422)
    assert "has ended 5 times" in state.error["detail"]


def test_a_clean_stop_is_no_attempt(add, run_one, gateway, stopping):
    document = add(*MANY)
    stopping.set()
    for _ in range(7):
        with pytest.raises(WorkerStopped):
            run_one(document)
    stopping.clear()
    assert run_one(document).status == "done"


def test_what_is_over_stays_over(add, run_one, gateway):
    document = add("one")
    done = run_one(document)
    gateway.asked.clear()
    assert run_one(document) == done
    assert gateway.asked == []


@pytest.mark.parametrize(
    ("end", "slug", "words"),
    [
        (LimitExceeded("memory"), "document-too-large", "more than 512 MB of memory"),
        (LimitExceeded("bytes"), "document-too-large", "more than 32 MB in a file"),
        (LimitExceeded("cpu"), "document-too-slow", "30 s of CPU time"),
        (LimitExceeded("time"), "document-too-slow", "more than 120 s,"),
        (WorkerEnded(), "damaged-document", "have ended 3 times"),
    ],
    ids=["memory", "bytes", "cpu", "time", "killed"],
)
def test_the_reason_for_which_a_document_is_given_up_is_told(
    add, run_one, gateway, end, slug, words
):
    document = add(*MANY)
    error = run_one(document, Failing(end, end, end)).error
    assert error["type"] == f"urn:babelgate:{slug}"
    assert words in error["detail"]
    assert gateway.asked == []
    assert not document.source.exists()


@pytest.mark.parametrize("step", ["read", "write"])
@pytest.mark.parametrize("end", [WorkerEnded(), LimitExceeded("time")])
def test_a_worker_that_is_killed_or_stands_still_is_replaced(add, run_one, end, step):
    document = add(*MANY)
    run_one(document, Failing(end, end, step=step))
    assert read_result(document)[1] == [text.upper() for text in MANY]


def test_a_real_worker_has_the_memory_of_a_document(add, run_one, monkeypatch):
    large = add(*(f"Paragraph {n}.\n" for n in range(30_000)), name="a.md")
    monkeypatch.setattr("documents.translation.MEMORY_BYTES", 8 << 20)
    with closing(Sandbox("documents.worker")) as sandbox:
        error = run_one(large, sandbox.run).error
    assert error["type"] == "urn:babelgate:document-too-large"
