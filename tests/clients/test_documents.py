"""Documents that a stack translates, that a repeated job fetches, and that the stack loses."""

import os
from pathlib import Path
from typing import Any

import pytest

from clients.bulk import Event, run_job
from clients.documents import DocumentJob, DocumentUpload
from clients.errors import ServerError
from clients.files import DOCUMENTS, find_sources, plan_translations
from clients.server import ApiClient
from clients.translations import TranslationOptions
from tests.clients.conftest import Stop, run
from tests.fake_api import MARK

NAMES = ("a.docx", "b/c.srt", "b/d.html", "e.txt")
WANTED = TranslationOptions("de", "en", glossary="terms")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four documents among files that are not documents."""
    monkeypatch.chdir(tmp_path)
    for name in (*NAMES, "f.zip", "~$a.docx", ".hidden.txt"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 50_000 if name == "e.txt" else name.encode())
    return tmp_path


def make_job(
    server: ApiClient, files: list[str], output: str, *, at_once: int = 2
) -> DocumentJob:
    found = find_sources(files, DOCUMENTS)
    sources, plan = plan_translations(found, output, WANTED.target)
    return DocumentJob(
        sources=sources,
        plan=plan,
        server=server,
        wanted=WANTED,
        documents_at_once=at_once,
    )


def list_files(folder: Path) -> list[str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def test_documents_are_uploaded_downloaded_and_deleted(stack, server, folder):
    stack.polls = 9  # so that the second arrives before the first is done
    stack.warnings = {"a.docx": ["The signature is not valid."]}
    outcome, events = run(make_job(server, ["in"], "out"))
    assert outcome.errors == []
    assert outcome.warnings == ["in/a.docx: The signature is not valid."]
    translated = ["a.de.docx", "b/c.de.srt", "b/d.de.html", "e.de.txt"]
    assert list_files(folder / "out") == translated
    for name in NAMES:
        path = Path("out", name)
        found = path.with_name(f"{path.stem}.de{path.suffix}").read_bytes()
        assert found == MARK + Path("in", name).read_bytes()
    uploaded = {document.name for document in stack.documents}
    assert uploaded == {Path(name).name for name in NAMES}
    assert all(document.is_deleted for document in stack.documents)
    assert [document.fields for document in stack.documents] == 4 * [
        {"tgt_lang": "de", "src_lang": "en", "glossary": "terms"}
    ]
    assert stack.most_documents == 2
    assert events[-1][1] == pytest.approx(1)
    assert not Path("out.part").exists()


@pytest.mark.parametrize("stop_after", range(1, 9))
def test_a_job_that_is_stopped_anywhere_goes_on(stack, server, folder, stop_after):
    with ApiClient(stack.url, connections=5) as stopped, pytest.raises(Stop):
        run(make_job(stopped, ["in"], "out", at_once=1), stop_after)
    outcome, _ = run(make_job(server, ["in"], "out", at_once=1))
    assert outcome.errors == []
    assert len(list_files(folder / "out")) == 4
    # The next run has no record of an upload that was in progress at the stop.
    assert 4 <= len(stack.documents) <= 5


def test_a_document_that_is_under_way_is_not_uploaded_again(stack, server, folder):
    stack.is_open.clear()
    with ApiClient(stack.url, connections=5) as stopped, pytest.raises(Stop):
        run(make_job(stopped, ["in"], "out", at_once=4), 4)
    assert Path("out.part").exists()
    stack.is_open.set()
    outcome, events = run(make_job(server, ["in"], "out"))
    assert outcome.errors == []
    assert not any(isinstance(event, DocumentUpload) for event, _ in events)
    assert stack.requests["POST"] == len(stack.documents) == 4
    assert stack.requests["DELETE"] == 4


def test_what_the_stack_lost_between_runs_is_uploaded_again(stack, server, folder):
    stack.is_open.clear()
    with ApiClient(stack.url, connections=5) as stopped, pytest.raises(Stop):
        run(make_job(stopped, ["in/a.docx"], "out/"), 1)
    stack.documents.clear()
    stack.is_open.set()
    outcome, _ = run(make_job(server, ["in/a.docx"], "out/"))
    assert outcome.errors == []
    assert Path("out/a.de.docx").read_bytes() == MARK + b"a.docx"


def test_what_was_downloaded_but_not_deleted_is_deleted(stack, server, folder):
    job = make_job(server, ["in/a.docx", "in/e.txt"], "out", at_once=1)
    stack.deleting = 500
    outcome, _ = run(job)
    assert outcome.errors == []
    assert len(outcome.warnings) == 2
    assert outcome.warnings[0].startswith("in/a.docx is still on the stack: http")
    stack.deleting = None
    with ApiClient(stack.url, connections=5) as stopped, pytest.raises(Stop):
        run(make_job(stopped, ["in/b"], "new", at_once=1), 2)
    deleted = stack.requests["DELETE"]
    run(make_job(server, ["in/b"], "new", at_once=1))
    # The first is deleted again, as the stopped run may not have deleted it.
    assert stack.requests["DELETE"] == deleted + 2


def test_a_translation_removed_between_runs_is_made_again(stack, server, folder):
    with ApiClient(stack.url, connections=5) as stopped, pytest.raises(Stop):
        run(make_job(stopped, ["in"], "out", at_once=1), 2)
    Path("out/a.de.docx").unlink()
    outcome, events = run(make_job(server, ["in"], "out", at_once=1))
    assert len(outcome.written) == len(list_files(folder / "out")) == 4
    assert events[-1][1] == pytest.approx(1)


def test_a_document_that_fails_or_is_gone_is_told_and_stops_no_other(
    stack, server, folder
):
    stack.refused = {"a.docx": 415, "e.txt": 413}
    stack.failing = {"c.srt": "it is damaged"}
    gone = Path("in/gone.txt")
    gone.touch()
    job = make_job(server, ["in"], "out")
    gone.unlink()
    outcome, _ = run(job)
    assert outcome.errors == [
        "in/a.docx: 415 a.docx is refused.",
        "in/b/c.srt: it is damaged",
        "in/e.txt: 413 e.txt is refused.",
        "in/gone.txt: No such file or directory",
    ]
    assert list_files(folder / "out") == ["b/d.de.html"]
    assert [path.as_posix() for path in outcome.written] == ["out/b/d.de.html"]
    assert all(document.is_deleted for document in stack.documents)


def test_a_document_that_the_stack_loses_is_told(stack, server, folder):
    stack.is_open.clear()

    def report(event: Event, _: float) -> None:
        if isinstance(event, DocumentUpload):
            stack.documents.clear()

    outcome = run_job(make_job(server, ["in/a.docx"], "out/"), report)
    assert outcome.errors == ["in/a.docx: 404 There is no such document."]


def test_a_source_that_is_cut_off_meanwhile_is_sent_as_it_was(stack, server, folder):
    source = Path("in/e.txt")
    content = source.read_bytes()

    class Refused(dict[str, int]):
        def get(self, *given: Any) -> Any:
            os.truncate(source, 10)
            return self.pop(given[0], None)

    stack.refused = Refused({"e.txt": 503})
    outcome, _ = run(make_job(server, [str(source)], "out/"))
    assert outcome.errors == []
    assert stack.documents[0].content == content


@pytest.mark.parametrize("status", [401, 403, 404, 503])
def test_a_stack_that_takes_no_documents_ends_it(stack, server, folder, status):
    stack.refused = {Path(name).name: status for name in NAMES}
    with pytest.raises(ServerError, match=f"/documents: {status} .* is refused"):
        run(make_job(server, ["in"], "out"))


def test_an_empty_document_and_a_strange_long_name_are_uploaded(stack, server, folder):
    path = Path(f'in/größe "1" 你\udce9{"x" * 232}.txt')
    path.touch()
    target = path.with_name(f"{path.stem}.de.txt")  # of 255 bytes
    run(make_job(server, [str(path)], str(target)))
    (document,) = stack.documents
    assert document.content == b""
    assert document.name == f"größe %221%22 你?{'x' * 232}.txt"
    assert target.read_bytes() == MARK
