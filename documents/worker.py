"""The steps that a sandbox's workers run on a document: extracting its texts to a file, and
writing its translations into a copy. No other part of the program opens untrusted files.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contract import durable
from documents.errors import LostMarkup, explain
from documents.formats import find_format
from documents.formats.format import DocumentContext, Format
from documents.pieces import join, read_journal
from documents.sandbox import find_limit
from documents.storage import DocumentFolder, read_document
from text.messages import strip

#: The number of characters used to identify a document's language.
_SAMPLE_CHARACTERS = 10_000
_TAG = re.compile(r"<[^<>]+>")


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the `step` of a request on the document in `folder`, whose language is `source`. The
    answer has `warnings` for the owner, or a `problem`. Raises Gone, and errors caused by the
    limits on memory and file size."""
    document = read_document(Path(request["folder"]))
    context = DocumentContext(document.order.tgt_lang, document.order.src_lang)
    answer: dict[str, Any] = {}
    try:
        format = find_format(document.order.name)
        if request["step"] == "read":
            answer = _read_document(document, format, context)
        else:
            _write_document(document, format, context, request["source"])
    except Exception as error:  # the worker's edge: the owner gets a problem
        document.check()
        if find_limit(error):
            raise
        return {"problem": explain(error)}
    return {**answer, "warnings": [*context.warnings]}


def _read_document(
    document: DocumentFolder, format: Format, context: DocumentContext
) -> dict[str, Any]:
    document.texts.unlink(missing_ok=True)
    texts = characters = 0
    sample: list[str] = []

    def note(text: str) -> str:
        nonlocal texts, characters
        file.write(f"{json.dumps(text)}\n")
        shown = _TAG.sub("", text) if format.markup == "xml" else text
        if characters < _SAMPLE_CHARACTERS:
            sample.append(strip(shown)[:_SAMPLE_CHARACTERS])
        texts += 1
        characters += len(shown)
        return text

    with document.texts.open("x", encoding="ascii") as file:
        format.translate(document.source, note, None, context)
    return {
        "texts": texts,
        "characters": characters,
        "sample": " ".join(sample)[:_SAMPLE_CHARACTERS],
        "markup": format.markup,
        "media_type": format.media_type,
    }


def _write_document(
    document: DocumentFolder, format: Format, context: DocumentContext, source: str
) -> None:
    document.part.unlink(missing_ok=True)
    translations = join(read_journal(document.journal), source, context.target)

    def take(_: str) -> str:
        translation = next(translations, None)
        if translation is None:
            raise LostMarkup("The document has more texts than translations")
        return translation

    format.translate(document.source, take, document.part, context)
    if next(translations, None) is not None:
        raise LostMarkup("The document has fewer texts than translations")
    durable.sync(document.part)
