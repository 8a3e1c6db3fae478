"""Documents that arrive, and end."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from documents.storage import NOBODY, DocumentFolder, DocumentStorage, State


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "documents"


@pytest.fixture
def storage(folder) -> DocumentStorage:
    return DocumentStorage(folder)


@pytest.fixture
def upload(client):
    """Uploads a file; what is None is left out."""

    def upload(path="/documents", /, content=b"Hello\n", name="a.txt", **fields):
        data = {key: value for key, value in fields.items() if value is not None}
        data["file"] = (io.BytesIO(content), name)
        return client.post(path, data=data, content_type="multipart/form-data")

    return upload


@pytest.fixture
def find(storage):
    """The document of an answer."""

    def find(answer) -> DocumentFolder:
        assert answer.status_code in (200, 202), answer.text
        body = answer.json
        document_id = body.get("id") or body["document_id"]
        document: DocumentFolder = storage.find(NOBODY, document_id)
        return document

    return find


@pytest.fixture
def end(storage):
    """Ends a document as the program that translates does."""

    def end(document: DocumentFolder, content: bytes = b"Bonjour\n", **changes) -> None:
        document.result.write_bytes(content)
        state = State(
            status="done",
            texts=2,
            texts_done=2,
            characters=5,
            expires_at=2e9,
            media_type="text/plain",
        )
        document.write_state(replace(state, **changes))

    return end
