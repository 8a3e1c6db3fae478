"""Documents in every API: taken to disk whole or not at all, told of, handed out and
deleted. What translates them is `tests/documents`.
"""

from __future__ import annotations

import errno
import io
import os
import re
import threading
from pathlib import Path

import pytest

from documents.storage import (
    NOBODY,
    DocumentFolder,
    DocumentLimits,
    State,
    UnfinishedDocument,
)
from gateway.http.request import Call

PROBLEM = {"type": "urn:babelgate:too-long", "status": 422, "detail": "Text 3: no."}
OURS = {"tgt_lang": "ko"}
DEEPL = {"target_lang": "KO"}
LIBRE = {"source": "en", "target": "ko"}
UPLOADS = [("/documents", OURS), ("/v2/document", DEEPL), ("/translate_file", LIBRE)]
EVERYWHERE = pytest.mark.parametrize(("path", "fields"), UPLOADS, ids=lambda v: str(v))


def list_files(folder: Path) -> list[str]:
    return [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()]


def make_glossary(client) -> None:
    entries = {"station": "역"}
    given = {"name": "terms", "src_lang": "en", "tgt_lang": "ko", "entries": entries}
    assert client.post("/glossaries", json=given).status_code == 201


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/documents", {"tgt_lang": "ko", "glossary": "others"}, 404),
        ("/documents", {"tgt_lang": "fr", "glossary": "terms"}, 422),
        ("/v2/document", {"target_lang": "KO", "glossary_id": "others"}, 404),
    ],
    ids=["ours", "languages", "DeepL"],
)
def test_a_glossary_that_does_not_fit_is_refused_at_once(
    upload, client, folder, path, fields, status
):
    make_glossary(client)
    assert upload(path, **fields).status_code == status
    assert list_files(folder) == []


def test_a_document_is_taken_and_told_of(upload, client, find, storage):
    make_glossary(client)
    answer = upload(**OURS, src_lang="en", name="/tmp/my report.TXT", glossary="terms")
    assert answer.status_code == 202
    document = find(answer)
    assert answer.headers["Location"] == f"/documents/{document.order.id}"
    assert client.get(answer.headers["Location"]).json == answer.json
    created = answer.json.pop("created_at")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", created)
    assert {
        name: answer.json[name] for name in answer.json if name != "created_at"
    } == {
        "id": document.order.id,
        "name": "my report.TXT",
        "status": "queued",
        "src_lang": "en",
        "tgt_lang": "ko",
        "texts": 0,
        "texts_done": 0,
        "characters": 0,
        "expires_at": None,
        "error": None,
    }
    assert document.source.name == "source.txt"
    assert document.source.read_bytes() == b"Hello\n"
    assert document.order.glossary == "terms"
    assert document.order.address == "127.0.0.1"
    (job,) = storage.list_unfinished()
    assert (job.owner, job.id) == (NOBODY, document.order.id)


def test_a_large_document_arrives_whole(upload, find):
    content = os.urandom(450_000)
    assert find(upload(**OURS, content=content)).source.read_bytes() == content


def test_the_result_is_handed_out(upload, client, find, end):
    answer = upload(**OURS, name="an öld file.txt")
    end(find(answer), b"x" * 1_000_000)
    where = f"/documents/{answer.json['id']}"
    assert client.get(where).json["expires_at"] == "2033-05-18T03:33:20Z"
    result = client.get(f"{where}/result")
    assert (result.status_code, result.data) == (200, b"x" * 1_000_000)
    assert result.content_type == "text/plain"
    assert result.headers["Content-Disposition"] == (
        "attachment; filename*=UTF-8''an%20%C3%B6ld%20file.ko.txt"
    )
    assert result.headers["X-Content-Type-Options"] == "nosniff"


def test_what_is_not_done_has_no_result(upload, client, find, end):
    answer = upload(**OURS)
    where = f"/documents/{answer.json['id']}/result"
    refused = client.get(where)
    assert (refused.status_code, refused.json["type"]) == (
        409,
        "urn:babelgate:not-done",
    )
    end(find(answer), status="failed", error=PROBLEM)
    refused = client.get(where)
    assert (refused.status_code, refused.json["error"]) == (409, PROBLEM)
    assert client.get(where.removesuffix("/result")).json["error"] == PROBLEM


def test_a_deleted_document_never_was(upload, client, folder):
    where = f"/documents/{upload(**OURS).json['id']}"
    assert client.delete(where).status_code == 204
    assert list_files(folder) == []
    for ask in (client.get, client.delete):
        assert ask(where).json["type"] == "urn:babelgate:no-document"
    assert client.get(f"{where}/result").status_code == 404


@pytest.mark.parametrize("name", ["0" * 32, "x", "..", "%2e%2e%2f", "0" * 31 + "G"])
def test_what_is_no_id_is_no_document(client, name):
    assert client.get(f"/documents/{name}").status_code == 404


def test_there_is_no_list_without_keys(client):
    assert client.get("/documents").json["type"] == "urn:babelgate:not-found"


@pytest.mark.parametrize(
    ("fields", "status", "detail"),
    [
        ({}, 422, "tgt_lang: missing"),
        ({"tgt_lang": "xx"}, 422, "tgt_lang: 'xx' is not served"),
        ({"tgt_lang": "ko", "src_lang": "english"}, 422, "src_lang: 'english'"),
        ({"tgt_lang": "ko", "name": "a.exe"}, 415, "The file's name ends in '.exe'"),
        ({"tgt_lang": "ko", "name": "/"}, 422, "file: has no name"),
        ({"tgt_lang": "ko" * 5000}, 413, "tgt_lang: over 8192 bytes"),
    ],
)
def test_a_wrong_form_is_told_and_leaves_nothing(
    upload, folder, fields, status, detail
):
    answer = upload(**fields)
    assert (answer.status_code, detail in answer.json["detail"]) == (status, True)
    assert list_files(folder) == []


@EVERYWHERE
def test_a_form_without_a_file_is_told(client, folder, path, fields):
    answer = client.post(path, data=fields, content_type="multipart/form-data")
    assert answer.status_code in (400, 422)
    assert "file: missing" in answer.text
    assert list_files(folder) == []


@EVERYWHERE
def test_two_files_are_told(client, folder, path, fields):
    files = [(io.BytesIO(b"a"), "a.txt"), (io.BytesIO(b"b"), "b.txt")]
    data = {**fields, "file": files}
    answer = client.post(path, data=data, content_type="multipart/form-data")
    assert "found a second one" in answer.text
    assert list_files(folder) == []


@EVERYWHERE
@pytest.mark.parametrize("body", [b"", b"--x\r\n", b'{"a": 1}'])
def test_what_is_no_form_is_told(client, folder, path, fields, body):
    for content_type in ("application/json", "multipart/form-data; boundary=x"):
        answer = client.post(path, data=body, content_type=content_type)
        assert answer.status_code in (400, 422), answer.text
    assert list_files(folder) == []


@EVERYWHERE
def test_a_document_that_is_too_large_leaves_nothing(make_client, folder, path, fields):
    client = make_client(document_bytes=100_000)
    for size in (100_001, 400_000):
        data = {**fields, "file": (io.BytesIO(b"x" * size), "a.txt")}
        answer = client.post(path, data=data, content_type="multipart/form-data")
        assert answer.status_code == 413
        assert "100000 bytes" in answer.text
    assert list_files(folder) == []


@EVERYWHERE
def test_a_full_disk_is_told_and_leaves_nothing(
    upload, folder, monkeypatch, path, fields
):
    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        answer = upload(path, **fields)
    assert answer.status_code == 507, answer.text
    assert list_files(folder) == []


@EVERYWHERE
@pytest.mark.parametrize("limit", ["documents_waiting", "documents_of_one"])
def test_waiting_documents_are_bounded(
    make_client, storage, folder, path, fields, limit
):
    client = make_client(**{limit: 1})
    first = client.post(
        "/documents",
        data={**OURS, "file": (io.BytesIO(b"a"), "a.txt")},
        content_type="multipart/form-data",
    )
    assert first.status_code == 202
    data = {**fields, "file": (io.BytesIO(b"a"), "a.txt")}
    answer = client.post(path, data=data, content_type="multipart/form-data")
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "30"
    assert len(storage.list_unfinished()) == 1


@EVERYWHERE
@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"documents_kept_bytes_of_one": 1000}, 413),
        ({"documents_kept_bytes": 1000}, 507),
        ({"disk_reserve_bytes": 1 << 60}, 507),
    ],
    ids=["of one", "of all", "of the disk"],
)
def test_what_is_kept_is_bounded(make_client, folder, path, fields, limits, status):
    client = make_client(**limits)
    data = {**fields, "file": (io.BytesIO(b"a"), "a.txt")}
    answer = client.post(path, data=data, content_type="multipart/form-data")
    assert answer.status_code == status
    shape = {"/documents": "detail", "/v2/document": "message"}.get(path, "error")
    assert "documents" in answer.json[shape]
    assert list_files(folder) == []


def test_deepls_document_is_told_of_with_its_key(upload, client, find, end):
    answer = upload("/v2/document", **DEEPL, source_lang="EN", formality="default")
    assert set(answer.json) == {"document_id", "document_key"}
    where = f"/v2/document/{answer.json['document_id']}"
    key = {"document_key": answer.json["document_key"]}
    assert client.post(where, json=key).json == {
        "document_id": answer.json["document_id"],
        "status": "queued",
    }
    refused = client.post(f"{where}/result", json=key)
    assert (refused.status_code, refused.json["message"]) == (503, "Document not ready")
    end(find(answer), status="translating", started_at=1.0, texts_done=1)
    assert client.get(where, query_string=key).json["seconds_remaining"] > 1e6
    end(find(answer))
    told = client.post(where, data=key).json
    assert (told["status"], told["billed_characters"]) == ("done", 5)
    assert client.post(f"{where}/result", json=key).data == b"Bonjour\n"
    end(find(answer), status="failed", error=PROBLEM)
    told = client.post(where, json=key).json
    assert (told["status"], told["error_message"]) == ("error", "Text 3: no.")


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({"document_key": "wrong"}, 404, "Not found"),
        ({}, 400, "Parameter 'document_key' not specified."),
    ],
)
def test_deepls_document_needs_its_key(upload, client, given, status, message):
    where = f"/v2/document/{upload('/v2/document', **DEEPL).json['document_id']}"
    for path in (where, f"{where}/result"):
        answer = client.post(path, json=given)
        assert (answer.status_code, answer.json["message"]) == (status, message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Parameter 'target_lang' not specified."),
        ({"target_lang": "XX"}, "Value for 'target_lang' not supported."),
        (DEEPL | {"source_lang": "XX"}, "Value for 'source_lang' not supported."),
        (DEEPL | {"formality": "more"}, "'formality' is not supported"),
        (DEEPL | {"output_format": "pdf"}, "Value for 'output_format' not supported"),
        (DEEPL | {"name": "a.exe"}, "The file's name ends in '.exe'"),
    ],
)
def test_deepls_form_is_refused_in_its_words(upload, folder, fields, message):
    answer = upload("/v2/document", **fields)
    assert answer.status_code == 400
    assert answer.json["message"].startswith(message)
    assert list_files(folder) == []


def test_what_deepl_stores_is_not_found_here(upload, folder):
    answer = upload("/v2/document", **DEEPL, style_id="mine")
    assert (answer.status_code, answer.json["message"]) == (404, "Not found")
    assert list_files(folder) == []


def test_deepls_file_may_be_named_by_a_field(upload, find):
    answer = upload("/v2/document", **DEEPL, name="blob", filename="report.html")
    assert find(answer).order.name == "report.html"


def test_libretranslates_file_is_waited_for(upload, client, storage, end):
    def translate():
        while (
            not storage.list_unfinished()
            or not (job := storage.list_unfinished()[0])
            or not storage.is_complete(job)
        ):
            pass
        end(storage.find(NOBODY, job.id))

    worker = threading.Thread(target=translate)
    worker.start()
    answer = upload("/translate_file", **LIBRE, name="my-file.txt")
    worker.join()
    url = answer.json["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/open-")
    assert url.endswith("-my_file.ko.txt")
    assert client.get(url).data == b"Bonjour\n"
    forged = re.sub(r"-[0-9a-f]{64}-", f"-{'0' * 64}-", url)
    for other in (forged, url[:60], "/download_file/x", "/download_file/a-b-c-d"):
        assert client.get(other).json == {
            "error": "There is no such document, or its time has passed."
        }


def test_libretranslates_file_that_fails_is_told_and_deleted(
    upload, storage, folder, monkeypatch
):
    states = [State(), State(status="failed", error=PROBLEM)]
    monkeypatch.setattr(DocumentFolder, "read_state", lambda _: states.pop(0))
    answer = upload("/translate_file", **LIBRE)
    assert (answer.status_code, answer.json) == (400, {"error": "Text 3: no."})
    assert list_files(folder) == []


def test_libretranslates_file_that_takes_too_long_is_deleted(client, folder):
    data = {**LIBRE, "file": (io.BytesIO(b"a"), "a.txt")}
    answer = client.post("/translate_file", data=data, headers={"X-Timeout-Ms": "300"})
    assert answer.status_code == 504
    assert "POST /documents" in answer.json["error"]
    assert list_files(folder) == []


def test_libretranslates_file_goes_with_its_client(upload, folder, monkeypatch):
    monkeypatch.setattr(Call, "has_gone", lambda _: True)
    assert upload("/translate_file", **LIBRE).status_code == 499
    assert list_files(folder) == []


def test_what_killed_programs_leave_is_swept(storage, folder):
    place = storage.reserve(NOBODY, "somebody", DocumentLimits(10, 10))
    place.path.write_bytes(b"half a docu")
    storage.sweep(os.stat(place.path).st_mtime + 60)
    assert storage.list_unfinished() == [
        UnfinishedDocument(NOBODY, "somebody", place.job.id)
    ]
    storage.sweep(os.stat(place.path).st_mtime + 4000)
    assert list_files(folder) == []
