"""JSON: values with prose are translated. Keys, numbers, order, indentation and the notation of
other values stay. Flutter's resources (`.arb`) are also JSON, with metadata for each message.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NoReturn

from contract.languages import normalize_variant
from documents.errors import DamagedDocument, RefusedContent
from documents.formats.encoding import mend
from documents.formats.format import Edit, is_prose, make_format, read_whole, surround

#: Deeper than any file written by people.
_MAX_DEPTH = 200
_TOO_DEEP = f"The document is nested deeper than {_MAX_DEPTH}"
#: A string, with the colon if it is a key, or the start or end of an object or array.
_TOKEN = re.compile(r'("(?:[^"\\]++|\\.)*+")(\s*+:)?|[{}\[\]]')
#: Half of a surrogate pair, which only an escape can write.
_HALF = re.compile("[\ud800-\udfff]")


def find_edits(content: str, *, is_arb: bool = False) -> Iterator[Edit]:
    """Yield the edits of a document, in order. In a file of resources, values below keys that
    begin with `@` stay, and `@@locale` becomes the language. Raises DamagedDocument if the
    content is not JSON, and RefusedContent if it is nested too deep."""
    _check(content)
    depth, key = 0, ""
    is_escaped = content.isascii() and "\\u" in content
    for token in _TOKEN.finditer(content):
        string, colon = token.groups()
        if not string:
            depth += (token[0] in "{[") - (token[0] in "}]")
            if depth > _MAX_DEPTH:
                raise RefusedContent(_TOO_DEEP)
        elif colon:
            key = json.loads(string) if depth == 1 else key
        elif not (is_arb and key.startswith("@")):
            yield from _find_edit(string, token.start(), is_escaped)
        elif key == "@@locale":
            yield _name_locale(string, token.start())


def _check(content: str) -> None:
    try:
        # Keep only lengths: objects and numbers need far more memory than their text.
        json.loads(
            content,
            object_pairs_hook=len,
            parse_int=len,
            parse_float=len,
            parse_constant=_refuse,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DamagedDocument(f"Invalid JSON at {where}: {error.msg}") from error
    except RecursionError as error:
        raise RefusedContent(_TOO_DEEP) from error


def _refuse(name: str) -> NoReturn:
    raise DamagedDocument(f"Invalid JSON: {name} is not a JSON value")


def _find_edit(raw: str, start: int, is_escaped: bool) -> Iterator[Edit]:
    value: str = json.loads(mend(raw))

    def write(new: Sequence[str], _: str) -> str:
        written = json.dumps(surround(value, new[0]), ensure_ascii=is_escaped)
        return written.replace("/", "\\/") if "\\/" in raw else written

    if is_prose(value) and not _HALF.search(value):
        yield Edit(start, start + len(raw), (value.strip(),), write)


def _name_locale(raw: str, start: int) -> Edit:
    def write(_: Sequence[str], language: str) -> str:
        is_same = normalize_variant(json.loads(raw)) == language
        # Flutter separates the parts of a name with underscores only.
        return raw if is_same else json.dumps(language.replace("-", "_"))

    return Edit(start, start + len(raw), (), write)


FORMAT = make_format((".json",), "application/json", "text", read_whole(find_edits))
_FIND_MESSAGES = read_whole(partial(find_edits, is_arb=True))
ARB = make_format((".arb",), "application/json", "text", _FIND_MESSAGES)
