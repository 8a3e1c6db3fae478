"""Describes faults of values: the value found and the values expected. Expectations are read
from JSON Schema, so the messages agree with the documented interface."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
_NOUNS = {"boolean": "true or false", "object": "an object", "null": "null"}
#: Characters of a value that a message repeats.
_MOST_CHARACTERS = 20
#: Characters of a name that are compared: the time grows with their square.
_LONGEST_NAME = 40


def kind(value: Any) -> str:
    """Return JSON's word for a value: `a list`, `a number`."""
    return "null" if value is None else _KINDS.get(type(value), "a number")


def expect(schema: Mapping[str, Any]) -> str:
    """Describe the values that a JSON Schema accepts: `a whole number`, `"text" or "html"`."""
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(map(expect, choices))
    if "enum" in schema:
        return " or ".join(f'"{value}"' for value in schema["enum"])
    match schema.get("type"):
        case "integer":
            return f"a whole number{_bounds(schema)}"
        case "number":
            return f"a number{_bounds(schema)}"
        case "array":
            return "a list of strings"
        case "string":
            noun = f"a {schema.get('format', 'string')}"
            return " such as ".join(
                [noun, *(f'"{example}"' for example in schema.get("examples", ()))]
            )
    return _NOUNS[schema["type"]]


def describe(error: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Describe pydantic's error in a field of this schema: `found null, expected a string`."""
    index = next(
        (f" at index {part}" for part in error["loc"] if type(part) is int), ""
    )
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return f"missing, expected {expect(schema)}"
        case "string_unicode":
            return (
                f"{index} holds half of a surrogate pair, expected Unicode text".strip()
            )
        case "too_short":
            return "an empty list, expected at least one string"
        case "too_long":
            length, most = context["actual_length"], context["max_length"]
            return f"a list of {length}, expected {most} texts at the most"
    expected = "a list of strings" if index else expect(schema)
    return f"found {_show(error['input'], schema)}{index}, expected {expected}"


def list_faults(errors: Sequence[Mapping[str, Any]], model: Any) -> dict[str, str]:
    """Return each field's first fault, by its name. `errors` are pydantic's, of this model."""
    faults: dict[str, str] = {}
    for error in errors:
        field = str(error["loc"][0])
        if field not in faults:
            faults[field] = describe(error, _list_properties(model)[field])
    return faults


@cache
def _list_properties(model: Any) -> Any:
    """Cache the fields' JSON Schema, because generating it takes far longer than a refusal."""
    return model.model_json_schema()["properties"]


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint at the known name nearest to an unknown one; empty if none is near."""
    from difflib import get_close_matches  # needed only for mistakes

    names = {each.lower(): each for each in known}
    nearest = get_close_matches(name[:_LONGEST_NAME].lower(), names, n=1)
    return f", did you mean {names[nearest[0]]}?" if nearest else ""


def _bounds(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    return f" of at least {least}" if most is None else f" from {least:g} to {most:g}"


def _show(value: Any, schema: Mapping[str, Any]) -> str:
    """Repeat a number, or a URL's text for one. Other values may be long: name their type."""
    match schema.get("type"), value:
        case "integer" | "number", str():
            return repr(value[:_MOST_CHARACTERS])
        case "integer" | "number" | "boolean", int() | float() if (
            kind(value) == "a number"
        ):
            return repr(value)[:_MOST_CHARACTERS]
    return kind(value)
