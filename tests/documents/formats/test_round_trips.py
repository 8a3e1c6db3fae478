"""Any document that is translated into itself stays the same, byte for byte."""

import codecs
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.errors import DocumentError
from documents.formats import encoding, find_format
from documents.formats.format import DocumentContext
from tests.documents.formats.packing import find_group
from tests.documents.formats.translating import keep, shout, translate

SNIPPETS = {k: parts for k, parts in find_group("snippets").items() if k != "name"}
COMMON = ["\n", "\r\n", "\n\n", " ", "Hello world", "ein Wort", "é", "7", "\r"]
MARKS = st.sampled_from(
    [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le")]
)


@pytest.mark.parametrize("ending", SNIPPETS)
@given(data=st.data(), mark=MARKS)
def test_a_document_that_is_not_translated_is_the_same_file(ending, data, mark):
    parts = st.sampled_from([*SNIPPETS[ending], *COMMON]) | st.text(max_size=3)
    text = "".join(data.draw(st.lists(parts, max_size=25)))
    content = mark[0] + text.encode(mark[1], "replace")
    try:
        written = translate(f"a{ending}", content, keep)
    except DocumentError:
        return
    if ending != ".po":
        assert written == content
    translate(f"a{ending}", content, shout)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_a_long_file_is_read_and_written_in_parts(name, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "CHUNK_BYTES", 4 << 10)
    source, target = tmp_path / name, tmp_path / "new"
    source.write_bytes(b"2030-01-31\t12.50\t42,99\r\n" * 10_000)
    format = find_format(name)
    tracemalloc.start()
    try:
        context = DocumentContext("de")
        format.translate(source, keep, target, context)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert target.read_bytes() == source.read_bytes()
    assert peak < source.stat().st_size / 2
