"""Reads and writes a document in a process with limits, and says what it did wrong."""

from __future__ import annotations

import os
import resource
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from documents.errors import DocumentError, LostMarkup
from documents.formats import find_format
from tests.documents.formats.packing import mark

#: The largest file that is tried. A quarter for Markdown: its library takes up to 30
#: microseconds for a character.
MAX_BYTES = 256 << 10


def find_most_bytes(ending: str) -> int:
    """The largest file of a format that is tried."""
    return MAX_BYTES // 4 if ending == ".md" else MAX_BYTES


@dataclass(frozen=True)
class Limits:
    """The limits of a child process. A file is read four times and written twice."""

    cpu_s: int = 15
    memory_bytes: int = 200 << 20
    written_bytes: int = 32 << 20


LIMITS = Limits()


def try_document(ending: str, content: bytes, limits: Limits = LIMITS) -> str:
    """Describe a format's fault with a file; empty if there is none."""

    def work() -> None:
        with TemporaryDirectory() as folder:
            read_and_write(Path(folder, f"a{ending}"), content)

    return run_apart(work, limits)


def read_and_write(source: Path, content: bytes) -> None:
    """Translates a document into itself, and into capitals. Its own faults are told by a
    DocumentError, and nothing else goes wrong."""
    form, target = find_format(source.name), source.with_name(f"new-{source.name}")
    source.write_bytes(content)
    try:
        texts = list(form.read(source, "de"))
        marked = map(mark, form.read(source, "ar"))
        form.write(source, marked, target, "ar")
        target.unlink()
        form.write(source, iter(texts), target, "de")
    except LostMarkup:
        raise
    except DocumentError:
        return
    again = list(form.read(target, "de"))
    if source.suffix in (".po", ".xliff"):  # what has a translation is not read again
        again, texts = [text for text in again if text not in texts], []
    assert again == texts, "the texts are not those that were written"


def run_apart(work: Callable[[], None], limits: Limits = LIMITS) -> str:
    """Describe the fault of a child process with limits; empty if there is none."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _limit(limits)
        os.write(writing, _describe(work).encode("utf-8", "replace")[-4000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        fault = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return fault


def _limit(limits: Limits) -> None:
    now_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf(
        "SC_PAGESIZE"
    )
    for kind, most in (
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, now_bytes + limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.written_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    # It may wait for nothing.
    signal.alarm(20 * limits.cpu_s)


def _describe(work: Callable[[], None]) -> str:
    try:
        work()
    except BaseException:
        return traceback.format_exc(limit=-4)
    return ""
