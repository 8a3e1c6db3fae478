"""Parses request bodies and parameters into typed values, or into errors that name the
field and what was expected.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gateway.errors import InvalidRequest, MalformedRequest, UnknownLanguage

#: As `src_lang`: each text's language is identified.
AUTO = "auto"
_CODE = 'a language code such as "en"'
_HALF = "holds half of a surrogate pair, expected Unicode text"
FORMATS = ("text", "html")


@dataclass(frozen=True)
class Limits:
    """What a request may ask for: languages to translate into, and how much at once."""

    targets: Sequence[str]
    max_texts: int
    max_beam_size: int
    max_alternatives: int


@dataclass(frozen=True)
class TranslationRequest:
    """What to translate, and how. Without a `source` each text's own is identified;
    `is_list` says in which shape the client wants the answer."""

    source: str | None
    target: str
    texts: tuple[str, ...]
    is_list: bool
    is_html: bool = False
    is_protected: bool = True
    beam_size: int | None = None
    alternatives: int = 0


@dataclass(frozen=True)
class IdentificationRequest:
    """Texts whose languages a client wants to know."""

    texts: tuple[str, ...]
    is_list: bool


def parse_translation(body: bytes, limits: Limits) -> TranslationRequest:
    """The request in `body`; fields that it does not know are ignored.

    Raises MalformedRequest, InvalidRequest or UnknownLanguage.
    """
    content = _read_object(body)
    given = {"src_lang": AUTO} | content
    faults = {
        "src_lang": _find_string_fault(given, "src_lang", _CODE),
        "src_text": _find_text_fault(given, limits.max_texts),
        "tgt_lang": _find_string_fault(given, "tgt_lang", _CODE),
        **_find_option_faults(given, limits),
    }
    _refuse(faults)
    text = given["src_text"]
    return TranslationRequest(
        source=_find_source(given["src_lang"], limits.targets),
        target=_find_target(given["tgt_lang"], limits.targets),
        texts=(text,) if isinstance(text, str) else tuple(text),
        is_list=isinstance(text, list),
        is_html=given.get("format") == "html",
        is_protected=given.get("protect", True),
        beam_size=given.get("beam_size"),
        alternatives=given.get("alternatives", 0),
    )


def parse_identification(body: bytes, max_texts: int) -> IdentificationRequest:
    """The request in `body`; fields that it does not know are ignored.

    Raises MalformedRequest or InvalidRequest.
    """
    content = _read_object(body)
    _refuse({"src_text": _find_text_fault(content, max_texts)})
    text = content["src_text"]
    return IdentificationRequest(
        (text,) if isinstance(text, str) else tuple(text), isinstance(text, list)
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


def parse_classification(parameters: Mapping[str, str]) -> dict[str, str]:
    """The handler's parameters: how many labels a client wants.

    Raises InvalidRequest.
    """
    given = parameters.get("top_k", "5")
    is_number = given.isascii() and given.isdigit() and len(given) <= len("100")
    if is_number and 1 <= int(given) <= 100:
        return {"top_k": given}
    raise InvalidRequest(
        [_describe_parameter("top_k", given, "a whole number from 1 to 100")]
    )


def parse_detection(parameters: Mapping[str, str]) -> dict[str, str]:
    """The handler's parameters: the least score that an object must have.

    Raises InvalidRequest.
    """
    given = parameters.get("threshold", "0.5")
    with suppress(ValueError):
        if 0 <= (threshold := float(given)) <= 1:
            return {"threshold": str(threshold)}
    raise InvalidRequest(
        [_describe_parameter("threshold", given, "a number from 0 to 1")]
    )


def _describe_parameter(name: str, given: str, expected: str) -> dict[str, str]:
    return {"field": name, "expected": f"found {given[:20]!r}, expected {expected}"}


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body.removeprefix(BOM_UTF8).decode("utf-8"))
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


def _read_object(body: bytes) -> dict[str, Any]:
    content = _decode(body)
    if not isinstance(content, dict):
        raise MalformedRequest(f"Expected a JSON object, found {_kind(content)}.")
    return content


def _refuse(faults: Mapping[str, str | None]) -> None:
    errors = [
        {"field": field, "expected": expected}
        for field, expected in faults.items()
        if expected
    ]
    if errors:
        raise InvalidRequest(errors)


def _find_string_fault(
    content: Mapping[str, Any], field: str, expected: str
) -> str | None:
    if field not in content:
        return f"missing, expected {expected}"
    value = content[field]
    if not isinstance(value, str):
        return f"found {_kind(value)}, expected {expected}"
    return None if _is_unicode(value) else _HALF


def _find_text_fault(content: Mapping[str, Any], max_texts: int) -> str | None:
    texts = content.get("src_text")
    if isinstance(texts, list):
        return _find_list_fault(texts, max_texts)
    return _find_string_fault(content, "src_text", "a string or a list of strings")


def _find_option_faults(
    content: Mapping[str, Any], limits: Limits
) -> dict[str, str | None]:
    """What is wrong with each of the fields that may be left out."""
    ranges = {
        "beam_size": range(1, limits.max_beam_size + 1),
        "alternatives": range(limits.max_alternatives + 1),
    }
    faults = {
        name: f"found {_show(content[name])}, expected a whole number "
        f"from {span[0]} to {span[-1]}"
        for name, span in ranges.items()
        if name in content
        and (type(content[name]) is not int or content[name] not in span)
    }
    if content.get("format", "text") not in FORMATS:
        expected = " or ".join(f'"{name}"' for name in FORMATS)
        faults["format"] = f"found {_show(content['format'])}, expected {expected}"
    if not isinstance(content.get("protect", True), bool):
        faults["protect"] = f"found {_show(content['protect'])}, expected true or false"
    return dict(faults)


def _find_list_fault(texts: list[Any], max_texts: int) -> str | None:
    if not texts:
        return "an empty list, expected at least one string"
    if len(texts) > max_texts:
        return f"a list of {len(texts)}, expected {max_texts} texts at the most"
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            return f"found {_kind(text)} at index {i}, expected a list of strings"
        if not _is_unicode(text):
            return f"at index {i} {_HALF}"
    return None


def _find_source(tag: str, served: Sequence[str]) -> str | None:
    """Any language code: which languages a model reads, only the model knows, and it may
    read more than this stack translates into. None where it is to be identified."""
    language = normalize_language(tag)
    if language == AUTO:
        return None
    if not (2 <= len(language) <= 3 and language.isascii() and language.isalpha()):
        raise UnknownLanguage("src_lang", tag[:40], served)
    return language


def _find_target(tag: str, served: Sequence[str]) -> str:
    language = normalize_language(tag)
    if language not in served:
        raise UnknownLanguage("tgt_lang", tag[:40], served)
    return language


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _show(value: Any) -> str:
    """A number as it is, of anything else the kind: it may be long."""
    is_short = isinstance(value, int | float) and not isinstance(value, bool)
    return repr(value)[:20] if is_short else _kind(value)


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return names.get(type(value), "a number")
