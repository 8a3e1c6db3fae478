"""Reads and writes a document in a process with limits, and says what it did wrong."""

from __future__ import annotations

import os
import resource
import signal
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

from documents.errors import DocumentError, LostMarkup
from documents.formats import find_format
from documents.formats.format import DocumentContext
from tests.documents.formats.translating import shout

#: The largest file that is tried. A quarter for Markdown: its library takes up to 30
#: microseconds for a character.
MAX_BYTES = 256 << 10


def find_most_bytes(ending: str) -> int:
    """The largest file of a format that is tried."""
    return MAX_BYTES // 4 if ending == ".md" else MAX_BYTES


#: The limits of a child process. A file is read four times and written twice.
_CPU_S, _MEMORY_BYTES, _WRITTEN_BYTES = 15, 200 << 20, 32 << 20


def try_document(ending: str, content: bytes) -> str:
    """Describe a format's fault with a file in a child process with limits; empty if there is
    none."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _limit()
        os.write(writing, _describe(ending, content).encode("utf-8", "replace")[-4000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        fault = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return fault


def _read_and_write(source: Path, content: bytes) -> None:
    """Translates a document into itself, and into capitals. Its own faults are told by a
    DocumentError, and nothing else goes wrong."""
    form, target = find_format(source.name), source.with_name(f"new-{source.name}")
    source.write_bytes(content)
    reading = DocumentContext("de")
    try:
        texts = list(form.read(source, reading))
        marked = map(shout, form.read(source, DocumentContext("ar")))
        form.write(source, marked, target, DocumentContext("ar"))
        target.unlink()
        form.write(source, iter(texts), target, DocumentContext("de"))
    except LostMarkup:
        raise
    except DocumentError:
        return
    if any("does not say its encoding" in warning for warning in reading.warnings):
        return  # other bytes may stand for the same characters, and make another guess
    again = list(form.read(target, DocumentContext("de")))
    if source.suffix in (".po", ".xliff"):  # what has a translation is not read again
        again, texts = [text for text in again if text not in texts], []
    assert again == texts, "the texts are not those that were written"


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    for kind, most in (
        (resource.RLIMIT_CPU, _CPU_S),
        (resource.RLIMIT_AS, pages * os.sysconf("SC_PAGESIZE") + _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, _WRITTEN_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    # It may wait for nothing.
    signal.alarm(20 * _CPU_S)


def _describe(ending: str, content: bytes) -> str:
    try:
        with TemporaryDirectory() as folder:
            _read_and_write(Path(folder, f"a{ending}"), content)
    except BaseException:
        return traceback.format_exc(limit=-4)
    return ""
