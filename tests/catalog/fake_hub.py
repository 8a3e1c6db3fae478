"""A small Hugging Face hub on loopback, whose answers have the faults that a test sets."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session, constants

from tests.scripted_server import ClosingServer, QuietHandler

COMMIT = hashlib.sha1(b"the only commit").hexdigest()
_LARGE = {".bin", ".model", ".safetensors"}
_RANGE = re.compile(r"bytes=(\d+)-")
_FILE = re.compile(rf"(/storage)?/([\w-]+/[\w-]+)/resolve/{COMMIT}/([\w.-]+)")


@dataclass(frozen=True)
class Fault:
    #: If not 200, the answer has this status and no content.
    status: int = 200
    #: The byte before which the content ends and the connection closes.
    ends_at: int | None = None
    #: The content does not match the digest in the hub's metadata.
    is_damaged: bool = False
    #: Bytes after the content.
    rest: bytes = b""


@dataclass
class FakeHub:
    """A hub with its repositories, its faults, and the requests it received."""

    repositories: dict[str, Path] = field(default_factory=dict)
    url: str = ""
    #: The metadata of every model's card.
    card: dict[str, Any] = field(default_factory=dict)
    #: The path of every request, with the Range header if it has one.
    calls: list[str] = field(default_factory=list)
    #: If set, the status and body of every answer.
    instead: tuple[int, bytes] | None = None
    #: For each file, the faults of the next answers with its content.
    faults: dict[str, list[Fault]] = field(default_factory=dict)

    @contextmanager
    def serve(self) -> Iterator[None]:
        """Answer at `url` until the block ends."""
        server = ClosingServer(("127.0.0.1", 0), partial(_Handler, self))
        self.url = server.url
        server.start()
        try:
            yield
        finally:
            server.stop()

    def sent(self, file: str) -> list[str]:
        """The Range headers of the requests for a large file's content."""
        asked = [call.split() for call in self.calls if call.startswith("/storage/")]
        return [" ".join(rest) for path, *rest in asked if path.endswith(f"/{file}")]


@contextmanager
def ask_hub(url: str) -> Iterator[None]:
    """Make the library use the hub at `url` within the block."""
    files = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    with pytest.MonkeyPatch.context() as patch:
        # The library reads HF_ENDPOINT when it is imported.
        patch.setattr(constants, "ENDPOINT", url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
        patch.setenv("COLUMNS", "1000")
        yield
    close_session()


class _Handler(QuietHandler):
    timeout = 60

    def __init__(self, hub: FakeHub, *args: Any) -> None:
        self.hub = hub
        super().__init__(*args)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/api/agent-harnesses":  # the library's own look-up
            self.reply(404, b"")
            return
        self.hub.calls.append(f"{path} {self.headers.get('Range', '')}".strip())
        if self.hub.instead:
            self.reply(*self.hub.instead)
        elif path.startswith("/api/models/"):
            self._describe(path.removeprefix("/api/models/"))
        else:
            self._resolve(path)

    def _describe(self, name: str) -> None:
        if name not in self.hub.repositories:
            self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return
        files = sorted(self.hub.repositories[name].iterdir())
        siblings = [_describe_file(file) for file in files]
        answer = {"id": name, "sha": COMMIT, "siblings": siblings}
        body = json.dumps(answer | {"cardData": self.hub.card}).encode()
        self.reply(200, body, {"Content-Type": "application/json"})

    def _resolve(self, path: str) -> None:
        match = _FILE.fullmatch(path)
        file = match and self.hub.repositories.get(match[2], Path()) / match[3]
        if not match or not file or not file.is_file():
            self.reply(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif file.suffix in _LARGE and not match[1]:
            self.reply(302, b"", {"Location": f"{self.hub.url}/storage{path}"})
        else:
            faults = self.hub.faults.get(file.name)
            self._send(file.read_bytes(), faults.pop(0) if faults else Fault())

    def _send(self, body: bytes, fault: Fault) -> None:
        if fault.status != 200:
            self.reply(fault.status, b"")
            return
        if fault.is_damaged:
            body = body[::-1]
        body += fault.rest
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        if start >= len(body):
            self.reply(416, b"")
            return
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(body) - start))
        if asked:
            whole = f"{start}-{len(body) - 1}/{len(body)}"
            self.send_header("Content-Range", f"bytes {whole}")
        self.end_headers()
        self.wfile.write(body[start : fault.ends_at])
        self.close_connection = fault.ends_at is not None


def _describe_file(file: Path) -> dict[str, Any]:
    size = file.stat().st_size
    content = b"blob %d\0" % size + file.read_bytes()
    described: dict[str, Any] = {"rfilename": file.name, "size": size}
    described["blobId"] = hashlib.sha1(content).hexdigest()
    if file.suffix in _LARGE:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        described["lfs"] = {"size": size, "sha256": digest, "pointerSize": 134}
        described["blobId"] = hashlib.sha1(b"its pointer").hexdigest()
    return described
