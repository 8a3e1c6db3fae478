"""Reads and writes a document in a process with limits, and describes the fault."""

import traceback
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from documents.errors import DocumentError, LostMarkup
from documents.formats import find_format
from documents.formats.format import DocumentContext
from documents.sandbox import Allowance, LimitExceeded, Sandbox, WorkerEnded
from tests.documents.formats.translating import keep, list_texts, shout

#: The largest file that is tried; Markdown's library takes up to 30 µs per character.
MAX_BYTES = 256 << 10


def find_most_bytes(ending: str) -> int:
    """Return the size of the largest file of a format that is tried."""
    return MAX_BYTES // 4 if ending == ".md" else MAX_BYTES


#: A file is read twice and written twice, without waiting for anything.
_ALLOWANCE = Allowance(
    cpu_s=15, time_s=300, memory_bytes=200 << 20, written_bytes=32 << 20
)


def try_document(sandbox: Sandbox, ending: str, content: bytes) -> str:
    """Describe a format's fault with a file in a worker with limits; empty if there is none."""
    with TemporaryDirectory() as folder:
        source = Path(folder, f"a{ending}")
        source.write_bytes(content)
        try:
            answer = sandbox.run({"source": str(source)}, _ALLOWANCE, lambda: None)
        except (LimitExceeded, WorkerEnded) as error:
            return repr(error)
    return str(answer["fault"])


def run(request: Mapping[str, str]) -> dict[str, str]:
    """Describe the fault, in a worker."""
    try:
        _read_and_write(Path(request["source"]))
    except BaseException:
        return {"fault": traceback.format_exc(limit=-4)[-4000:]}
    return {"fault": ""}


def _read_and_write(source: Path) -> None:
    """Translate a document into itself and into capitals; a DocumentError is no fault."""
    form, target = find_format(source.name), source.with_name(f"new-{source.name}")
    reading = DocumentContext("de")
    try:
        texts = list_texts(source, reading)
        form.translate(source, shout, target, DocumentContext("ar"))
        target.unlink()
        form.translate(source, keep, target, DocumentContext("de"))
    except LostMarkup:
        raise
    except DocumentError:
        return
    if any("does not declare its encoding" in warning for warning in reading.warnings):
        return  # another encoding may be guessed from the written bytes
    again = list_texts(target, DocumentContext("de"))
    if source.suffix in (".po", ".xliff"):  # translated texts are not read again
        again, texts = [text for text in again if text not in texts], []
    assert again == texts, "the texts are not those that were written"
