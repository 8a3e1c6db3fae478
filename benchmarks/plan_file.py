"""Reads a plan in YAML and checks it. Errors name the line and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

Plan = TypeVar("Plan", bound=BaseModel)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class PlanEntry(BaseModel):
    """A part of a plan: each key is known and of its kind."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PlanError(ValueError):
    """A plan that cannot be followed; the message names the line and what was expected."""


def read(path: Path, kind: type[Plan]) -> Plan:
    """A plan of this kind from a file. Raises PlanError."""
    try:
        text = path.read_text("utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PlanError(f"{path}: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        needed = [key for key, f in kind.model_fields.items() if f.is_required()]
        raise PlanError(f"{path}: expected a mapping with {', '.join(needed)}")
    _refuse_duplicates(path, root)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        faults = (_describe(path, root, fault) for fault in error.errors())
        raise PlanError("\n".join(faults)) from error


def _describe(path: Path, root: yaml.Node, fault: Any) -> str:
    place = fault["loc"]
    message = str(fault["msg"]).removeprefix("Value error, ")
    if not place:
        return f"{path}: {message}"
    message = message.removeprefix(f"{place[-1]}: ")
    name = ".".join(map(str, place))
    return f"{path}:{_find_line(root, place)}: {name}: {message}"


def _find_line(node: yaml.Node, place: Sequence[str | int]) -> int:
    """The line of the value at `place`, or of its nearest existing parent."""
    line = node.start_mark.line + 1
    for part in place:
        pairs = {}
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
        elif isinstance(node, yaml.SequenceNode):
            pairs = {str(i): (value, value) for i, value in enumerate(node.value)}
        if str(part) not in pairs:
            break
        key, node = pairs[str(part)]
        line = key.start_mark.line + 1
    return line


def _refuse_duplicates(path: Path, node: yaml.Node) -> None:
    """Raises PlanError for a key that is there twice: YAML's reader keeps the last one."""
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _refuse_duplicates(path, child)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen:
            line = key.start_mark.line + 1
            raise PlanError(f"{path}:{line}: {key.value}: is there twice")
        seen.add(key.value)
        _refuse_duplicates(path, value)
