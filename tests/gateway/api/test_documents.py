"""Documents in every API: stored whole or not at all, followed, downloaded and deleted.
`tests/documents` tests their translation; `tests/contract` has more requests.
"""

import io
import os
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent.socket
import pytest
from flask.testing import FlaskClient

from contract.webhooks import Webhook
from documents.storage import NOBODY, DocumentFolder, DocumentStorage, State
from gateway.errors import DeadlineExceeded
from gateway.http.request import Call
from gateway.uploads import documents as uploads
from tests.gateway.http.test_event_stream import read

PROBLEM = {"type": "urn:babelgate:too-long", "status": 422, "detail": "Text 3: no."}
OURS = {"tgt_lang": "ko"}
DEEPL = {"target_lang": "KO"}
EQUAL = "Source and target language are equal."
LIBRE = {"source": "en", "target": "ko"}
EVERYWHERE = pytest.mark.parametrize(
    ("path", "fields"),
    [("/documents", OURS), ("/v2/document", DEEPL), ("/translate_file", LIBRE)],
    ids=["ours", "DeepL", "LibreTranslate"],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "documents"


@pytest.fixture
def storage(folder) -> DocumentStorage:
    return DocumentStorage(folder)


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def upload(client: FlaskClient, path: str = "/documents", /, **fields: Any) -> Any:
    """Upload a file, or several with `more`."""
    headers = fields.pop("headers", None)
    first = fields.pop("content", b"Hello\n"), fields.pop("name", "a.txt")
    files = [first, *fields.pop("more", [])]
    data = fields | {"file": [(io.BytesIO(content), name) for content, name in files]}
    kind = "multipart/form-data"
    return client.post(path, data=data, headers=headers, content_type=kind)


def find(storage: DocumentStorage, answer: Any) -> DocumentFolder:
    """Find the document whose id is in a response."""
    assert answer.status_code in (200, 202), answer.text
    told = answer.json
    return storage.find(NOBODY, told.get("id") or told["document_id"])


def end(
    document: DocumentFolder, content: bytes = b"Bonjour\n", **changes: Any
) -> None:
    """Finish a document as the documents worker does."""
    document.result.write_bytes(content)
    state = State("done", texts=2, expires_at=2e9, media_type="text/plain")
    document.write_state(replace(state, **changes))


@pytest.fixture
def glossary(client) -> None:
    given = {"name": "terms", "src_lang": "en", "tgt_lang": "ko"}
    made = client.post("/glossaries", json=given | {"entries": {"station": "역"}})
    assert made.status_code == 201


def test_a_document_is_taken_and_told_of(client, glossary, storage):
    content = os.urandom(450_000)
    given = {"src_lang": "en", "name": "/tmp/my report.TXT", "glossary": "terms"}
    answer = upload(client, **OURS, **given, content=content)
    assert answer.status_code == 202
    document = find(storage, answer)
    assert answer.headers["Location"] == f"/documents/{document.order.id}"
    assert client.get(answer.headers["Location"]).json == answer.json
    created = answer.json["created_at"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", created)
    told = [answer.json[name] for name in ("name", "src_lang", "tgt_lang")]
    assert told == ["my report.TXT", "en", "ko"]
    assert document.source.name == "source.txt"
    assert document.source.read_bytes() == content
    assert document.order.glossary == "terms"
    assert document.order.address == "127.0.0.1"
    (job,) = storage.list_jobs()
    assert (job.owner, job.id) == (NOBODY, document.order.id)
    # Without keys, documents cannot be listed.
    assert client.get("/documents").json["type"] == "urn:babelgate:not-found"


def test_a_document_is_followed_until_its_end(client, storage, monkeypatch):
    monkeypatch.setattr("gateway.api.documents._LOOK_S", 0.01)
    document = find(storage, upload(client, **OURS))
    headers = {"Accept": "text/event-stream"}
    response = client.get(f"/documents/{document.order.id}", headers=headers)
    blocks = iter(response.response)
    name, told = read(next(blocks))
    assert (name, told["status"], told["texts_done"]) == ("progress", "queued", 0)
    document.write_state(State("translating", texts=2, texts_done=1))
    name, told = read(next(blocks))
    assert (name, told["status"], told["texts_done"]) == ("progress", "translating", 1)
    end(document)
    name, told = read(next(blocks))
    assert (name, told["status"]) == ("done", "done")
    assert next(blocks, None) is None


def test_a_document_is_not_followed_for_ever(client, storage, monkeypatch):
    monkeypatch.setattr("gateway.api.documents._LOOK_S", 0.01)
    monkeypatch.setattr("gateway.api.documents._MOST_FOLLOWED_S", 0.05)
    document = find(storage, upload(client, **OURS))
    headers = {"Accept": "text/event-stream"}
    response = client.get(f"/documents/{document.order.id}", headers=headers)
    assert response.text.count("event: progress") == response.text.count("event: ") == 1


def test_a_disk_that_hangs_stops_only_what_needs_it(client, storage, monkeypatch):
    monkeypatch.setattr("gateway.uploads.documents._DISK_S", 1.0)
    document = find(storage, upload(client, **OURS))
    os.mkfifo(document.state)
    path = f"/documents/{document.order.id}"
    looks = [gevent.spawn(uploads.read_state, document) for _ in range(20)]
    gevent.idle()
    with gevent.Timeout(
        0.9
    ):  # each new connection to a model needs a thread of the loop
        gevent.socket.getaddrinfo("127.0.0.1", 80)
    assert client.get(path).status_code == 504
    answer = os.open(document.state, os.O_RDWR)
    document.state.unlink()
    os.close(answer)
    gevent.joinall(looks)
    assert client.get(path).json["status"] == "queued"


def test_a_download_waits_for_a_disk_that_hangs_only_for_a_time(
    client, storage, monkeypatch
):
    monkeypatch.setattr("gateway.uploads.documents._DISK_S", 0.2)
    document = find(storage, upload(client, **OURS))
    end(document)
    document.result.unlink()
    os.mkfifo(document.result)
    answer = os.open(document.result, os.O_RDWR)
    with gevent.Timeout(5), pytest.raises(DeadlineExceeded):
        client.get(f"/documents/{document.order.id}/result")
    os.close(answer)


def test_an_unknown_field_of_a_form_is_named(client):
    answer = upload(client, **OURS, glosary="terms")
    assert answer.json["warnings"] == ["glosary: unknown field, did you mean glossary?"]
    assert "warnings" not in client.get(answer.headers["Location"]).json


def test_a_webhook_is_kept_and_shown_to_nobody(client, storage):
    url, secret = "https://example.org:8443/done?token=abc", "A" * 32
    answer = upload(client, **OURS, webhook=url, webhook_secret=secret)
    assert find(storage, answer).read_webhook() == Webhook(url, secret)
    for shown in answer, client.get(answer.headers["Location"]):
        assert "hook" not in shown.text
        assert "token" not in shown.text
    foreign = upload(client, "/v2/document", **DEEPL, webhook=url)
    assert not find(storage, foreign).webhook.exists()


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("webhook", {"webhook": "http://example.org/done", "webhook_secret": "A" * 32}),
        ("webhook", {"webhook": f"https://a.org/{'x' * 2000}"}),
        ("webhook_secret", {"webhook_secret": "whsec_no base64"}),
        ("webhook_secret", {"webhook_secret": "A" * 92}),
    ],
)
def test_a_webhook_that_cannot_be_told_is_refused(field, given, client, folder):
    answer = upload(client, **OURS, **given)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json["errors"]] == [field]
    assert list_files(folder) == []


def test_the_result_is_handed_out_even_if_it_is_deleted_meanwhile(
    client, storage, monkeypatch
):
    def open_and_delete(path: Path) -> io.FileIO:
        file = io.FileIO(path)
        path.unlink()
        return file

    monkeypatch.setattr(uploads, "FileIO", open_and_delete)
    answer = upload(client, **OURS, name="an öld file.txt")
    end(find(storage, answer), b"x" * 1_000_000)
    where = f"/documents/{answer.json['id']}"
    assert client.get(where).json["expires_at"] == "2033-05-18T03:33:20Z"
    result = client.get(f"{where}/result", buffered=True)
    assert (result.status_code, result.data) == (200, b"x" * 1_000_000)
    assert result.content_type == "text/plain"
    assert result.headers["Content-Disposition"] == (
        'attachment; filename="an _ld file.ko.txt"; '
        "filename*=UTF-8''an%20%C3%B6ld%20file.ko.txt"
    )
    assert result.headers["X-Content-Type-Options"] == "nosniff"
    end(find(storage, answer), status="failed", error=PROBLEM)
    refused = client.get(f"{where}/result")
    assert (refused.status_code, refused.json["error"]) == (409, PROBLEM)


@pytest.mark.parametrize(
    ("path", "fields", "status", "said"),
    [
        ("/documents", {}, 422, "tgt_lang: missing"),
        ("/documents", {"tgt_lang": "xx"}, 422, "tgt_lang: 'xx' is not served"),
        ("/documents", OURS | {"src_lang": "english"}, 422, "src_lang: 'english'"),
        ("/documents", OURS | {"name": "/"}, 422, "file: has no name"),
        ("/documents", {"tgt_lang": "ko" * 5000}, 413, "tgt_lang: over 8192 bytes"),
        ("/documents", OURS | {"more": [(b"b", "b.txt")]}, 422, "found a second one"),
        ("/documents", OURS | {"glossary": "o" * 1024}, 404, "no glossary 'oo"),
        ("/documents", {"tgt_lang": "fr", "glossary": "terms"}, 422, "'fr' is not"),
        ("/v2/document", {}, 400, "Parameter 'target_lang' not specified."),
        ("/v2/document", {"target_lang": "XX"}, 400, "Value for 'target_lang' not"),
        ("/v2/document", DEEPL | {"source_lang": "XX"}, 400, "'source_lang' not"),
        ("/v2/document", DEEPL | {"formality": "more"}, 400, "'formality' is not"),
        ("/v2/document", DEEPL | {"output_format": "pdf"}, 400, "'output_format' not"),
        ("/v2/document", DEEPL | {"output_format": "xt"}, 400, "'output_format' not"),
        ("/v2/document", DEEPL | {"name": "a.exe"}, 400, "Invalid file data."),
        ("/v2/document", DEEPL | {"more": [(b"b", "b")]}, 400, "Invalid file data."),
        ("/v2/document", DEEPL | {"source_lang": "ko"}, 400, EQUAL),
        ("/translate_file", LIBRE | {"target": "xx"}, 400, "xx is not supported"),
        ("/translate_file", {"target": "ko"}, 400, "missing source parameter"),
        ("/v2/document", DEEPL | {"style_id": "mine"}, 404, "Not found"),
        ("/v2/document", DEEPL | {"glossary_id": "others"}, 404, "Glossary not found"),
        ("/v2/document", DEEPL | {"glossary_ids": "others"}, 404, "Glossary not found"),
        ("/v2/document", DEEPL | {"glossary_ids": "a,b"}, 400, "Too many glossaries."),
    ],
)
def test_a_wrong_form_is_told_and_leaves_nothing(
    client, glossary, folder, path, fields, status, said
):
    answer = upload(client, path, **fields)
    answers = answer.json
    told = answers.get("message") or answers.get("error") or answers["detail"]
    assert (answer.status_code, said in told) == (status, True)
    assert list_files(folder) == []


@EVERYWHERE
def test_what_is_no_form_with_a_file_is_told(client, folder, path, fields):
    answer = client.post(path, data=fields, content_type="multipart/form-data")
    assert answer.status_code in (400, 422)
    assert "file: missing" in answer.text
    words = {"/v2/document": "Invalid file data.", "/translate_file": "The browser (or"}
    assert words.get(path, "") in answer.text
    for content_type in ("application/json", "multipart/form-data; boundary=x"):
        answer = client.post(path, data=b"--x\r\n", content_type=content_type)
        assert answer.status_code in (400, 422), answer.text
    assert list_files(folder) == []


@EVERYWHERE
@pytest.mark.parametrize(
    ("limits", "status", "said"),
    [
        ({"document_bytes": 100_000}, 413, "100000 bytes"),
        ({"documents_kept_bytes_of_one": 1000}, 413, "documents"),
        ({"documents_kept_bytes": 1000}, 507, "documents"),
        ({"disk_reserve_bytes": 1 << 60}, 507, "documents"),
    ],
    ids=["of a document", "of one", "of all", "of the disk"],
)
def test_what_is_kept_is_bounded(
    make_client, folder, path, fields, limits, status, said
):
    client = make_client(**limits)
    for size in (100_001, 400_000):
        answer = upload(client, path, **fields, content=b"x" * size)
        assert (answer.status_code, said in answer.text) == (status, True)
    assert list_files(folder) == []


@EVERYWHERE
def test_a_full_disk_is_told_and_leaves_nothing(
    client, folder, monkeypatch, full_disk, path, fields
):
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk)
        answer = upload(client, path, **fields)
    assert answer.status_code == 507, answer.text
    assert list_files(folder) == []


def test_deepls_document_is_told_of_with_its_key(client, storage):
    path = "/v2/document?target_lang=XX&source_lang=EN&filename=report.html"
    answer = upload(client, path, **DEEPL, formality="default", name="blob")
    assert find(storage, answer).order.name == "report.html"
    assert set(answer.json) == {"document_id", "document_key"}
    where = f"/v2/document/{answer.json['document_id']}"
    key = {"document_key": answer.json["document_key"]}
    end(find(storage, answer), status="translating", started_at=1.0, texts_done=1)
    assert client.get(where, query_string=key).json["seconds_remaining"] > 1e6
    end(find(storage, answer), status="translating")
    assert client.get(where, query_string=key).json["seconds_remaining"] == 1
    for state, message in (
        ({"status": "failed", "error": PROBLEM}, "Text 3: no."),
        ({"src_lang": "ko"}, EQUAL),
    ):
        end(find(storage, answer), **state)
        told = client.post(where, json=key).json
        assert (told["status"], told["error_message"]) == ("error", message)
    for path in (where, f"{where}/result"):
        answer = client.post(path, json={"document_key": "wrong"})
        assert (answer.status_code, answer.json["message"]) == (404, "Not found")
        message = client.post(path, json={}).json["message"]
        assert message == "Parameter 'document_key' not specified."


def test_libretranslates_file_is_waited_for(client, storage):
    def translate():
        while not (jobs := storage.list_jobs()) or not storage.is_complete(jobs[0]):
            pass
        end(storage.find(NOBODY, jobs[0].id))

    worker = threading.Thread(target=translate)
    worker.start()
    answer = upload(client, "/translate_file", **LIBRE, name="my-file.txt")
    worker.join()
    url = answer.json["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/open-")
    assert url.endswith("-my_file.ko.txt")
    assert client.get(url, buffered=True).data == b"Bonjour\n"
    forged = re.sub(r"-[0-9a-f]{64}-", f"-{'0' * 64}-", url)
    error = "There is no such document, or its time has passed."
    for other in (forged, url[:60], "/download_file/x", "/download_file/a-b-c-d"):
        assert client.get(other).json == {"error": error}


@pytest.mark.parametrize(
    "why", ["it fails", "it takes too long", "the client has gone"]
)
def test_libretranslates_file_without_a_result_is_deleted(
    client, folder, monkeypatch, why
):
    headers = {"X-Timeout-Ms": "300"} if why == "it takes too long" else {}
    if why == "it fails":
        states = [State(), State(status="failed", error=PROBLEM)]
        monkeypatch.setattr(DocumentFolder, "read_state", lambda _: states.pop(0))
    elif why == "the client has gone":
        monkeypatch.setattr(Call, "has_gone", lambda _: True)
    answer = upload(client, "/translate_file", headers=headers, **LIBRE)
    status, said = {
        "it fails": (400, "Text 3: no."),
        "it takes too long": (504, "POST /documents"),
        "the client has gone": (499, "closed the connection"),
    }[why]
    assert (answer.status_code, said in answer.json["error"]) == (status, True)
    assert list_files(folder) == []
