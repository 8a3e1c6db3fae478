"""Has a stack translate documents with the unmodified package `deepl` and its command line.
`python ask_documents.py URL FOLDER` prints what each question was answered as JSON.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import deepl
from ask import GERMAN, KEY, answer

TEXT = "See you tomorrow\n"
SUBTITLES = "1\n00:00:01,000 --> 00:00:02,000\nSee you tomorrow\n"


def ask_deepl(url: str, folder: Path) -> Mapping[str, Callable[[], Any]]:
    """Questions by the package, and by its command line."""
    client = deepl.DeepLClient(KEY, server_url=url)

    def translate(name: str, content: str) -> Any:
        source, target = folder / name, folder / f"translated-{name}"
        source.write_text(content)
        status = client.translate_document_from_filepath(source, target, **GERMAN)
        return [str(status), status.billed_characters, target.read_text()]

    def take_apart() -> Any:
        file = TEXT.encode()
        handle = client.translate_document_upload(file, filename="a.txt", **GERMAN)
        status = client.translate_document_wait_until_done(handle)
        target = io.BytesIO()
        client.translate_document_download(handle, target)
        return [status.done, target.getvalue().decode()]

    def forge() -> Any:
        file = TEXT.encode()
        handle = client.translate_document_upload(file, filename="a.txt", **GERMAN)
        forged = deepl.DocumentHandle(handle.document_id, "0" * 64)
        return client.translate_document_get_status(forged)

    return {
        "text": lambda: translate("a.txt", TEXT),
        "subtitles": lambda: translate("a.srt", SUBTITLES),
        "damaged": lambda: translate("a.json", "{"),
        "steps": take_apart,
        "another's key": forge,
        "no format": lambda: translate("a.exe", TEXT),
        "command line": lambda: _run_deepl(url, folder),
    }


def _run_deepl(url: str, folder: Path) -> str:
    source, target = folder / "by-command.txt", folder / "target"
    source.write_text(TEXT)
    target.mkdir()
    command = [sys.executable, "-m", "deepl", "--auth-key", KEY, "--server-url", url]
    options = ["document", "--from", "EN", "--to", "DE", str(source), str(target)]
    subprocess.run([*command, *options], capture_output=True, timeout=60, check=True)
    return (target / source.name).read_text()


if __name__ == "__main__":
    questions = ask_deepl(sys.argv[1], Path(sys.argv[2]))
    found = {name: answer(question) for name, question in questions.items()}
    json.dump({"deepl": found}, sys.stdout, default=str)
