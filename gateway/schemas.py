"""JSON becomes a value here: bytes in, a request out, or an error that says where."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import InvalidRequest, MalformedRequest, UnknownLanguage

_FIELDS = ("src_lang", "src_text", "tgt_lang")


@dataclass(frozen=True)
class TranslationRequest:
    """What to translate; `is_list` says in which shape the client wants the answer."""

    source: str
    target: str
    texts: tuple[str, ...]
    is_list: bool


def parse_translation(
    body: bytes, *, targets: Sequence[str], max_texts: int
) -> TranslationRequest:
    """The request in `body`; fields that it does not know are ignored.

    Raises MalformedRequest, InvalidRequest or UnknownLanguage.
    """
    content = _decode(body)
    if not isinstance(content, dict):
        raise MalformedRequest(f"Expected a JSON object, found {_kind(content)}.")
    errors = [
        {"field": field, "expected": expected}
        for field in _FIELDS
        if (expected := _find_fault(field, content, max_texts))
    ]
    if errors:
        raise InvalidRequest(errors)
    text = content["src_text"]
    return TranslationRequest(
        source=_find_source(content["src_lang"], targets),
        target=_find_target(content["tgt_lang"], targets),
        texts=(text,) if isinstance(text, str) else tuple(text),
        is_list=isinstance(text, list),
    )


def normalize_language(tag: str) -> str:
    """`zh-CN`, `pt_BR` and `EN` are understood as `zh`, `pt` and `en`."""
    return tag.strip().lower().replace("_", "-").partition("-")[0]


def parse_timeout_ms(header: str | None, default_s: float) -> float:
    """Seconds that the request may take: `X-Timeout-Ms`, which can only lower the default.

    Raises MalformedRequest where the header is not a whole number above 0.
    """
    if header is None:
        return default_s
    if not (
        header.isascii()
        and header.isdigit()
        and 0 < len(header) < 10
        and int(header) > 0
    ):
        raise MalformedRequest(
            "X-Timeout-Ms: expected a whole number of milliseconds above 0."
        )
    return min(default_s, int(header) / 1000)


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedRequest(
            f"The body is not UTF-8: byte {error.start} is wrong."
        ) from error
    except json.JSONDecodeError as error:
        raise MalformedRequest(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except RecursionError as error:
        raise MalformedRequest("The body is nested too deeply.") from error
    except ValueError as error:
        raise MalformedRequest(
            "The body holds a number with too many digits."
        ) from error


def _find_fault(field: str, content: Mapping[str, Any], max_texts: int) -> str | None:
    is_text = field == "src_text"
    expected = (
        "a string or a list of strings" if is_text else 'a language code such as "en"'
    )
    if field not in content:
        return f"missing, expected {expected}"
    value = content[field]
    if is_text and isinstance(value, list):
        return _find_list_fault(value, max_texts)
    if not isinstance(value, str):
        return f"found {_kind(value)}, expected {expected}"
    return (
        None
        if _is_unicode(value)
        else "holds half of a surrogate pair, expected Unicode text"
    )


def _find_list_fault(texts: list[Any], max_texts: int) -> str | None:
    if not texts:
        return "an empty list, expected at least one string"
    if len(texts) > max_texts:
        return f"a list of {len(texts)}, expected {max_texts} texts at the most"
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            return f"found {_kind(text)} at index {i}, expected a list of strings"
        if not _is_unicode(text):
            return f"holds half of a surrogate pair at index {i}, expected Unicode text"
    return None


def _find_source(tag: str, served: Sequence[str]) -> str:
    """Any language code: which languages a model reads, only the model knows, and it may
    read more than this stack translates into."""
    language = normalize_language(tag)
    if not (2 <= len(language) <= 3 and language.isascii() and language.isalpha()):
        raise UnknownLanguage("src_lang", tag[:40], served)
    return language


def _find_target(tag: str, served: Sequence[str]) -> str:
    language = normalize_language(tag)
    if language not in served:
        raise UnknownLanguage("tgt_lang", tag[:40], served)
    return language


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return names.get(type(value), "a number")
