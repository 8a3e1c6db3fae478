"""Writes the tables of `docs/configuration.md` from the declarations: the map's keys in
`catalog/sections/`, the variables in `gateway/settings.py` and `contract/variables.py`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from inspect import getdoc
from pathlib import Path

from pydantic.fields import FieldInfo

from catalog import SECTIONS, VISION
from catalog.map import Map
from catalog.sections import ClusterSection, Section, Shape, VisionSection
from catalog.sections.translation import TargetSection, TranslationSection
from contract import variables
from contract.tasks import TRANSLATION
from deploy.stack import ROOT
from gateway.settings import Settings, name_variable

PAGE = ROOT / "docs/configuration.md"
_BLOCK = re.compile(r"(<!-- generated: (.+?) -->\n).*?(?=<!-- end -->)", re.DOTALL)
#: The cells of a row: a name, its default and its meaning.
Row = tuple[str, str, str]


def render() -> str:
    """Return the page with up-to-date tables. Raises KeyError for an unknown table."""
    page = PAGE.read_text("utf-8")
    images = [*VisionSection.model_fields]
    shared = [name for name in TranslationSection.model_fields if name in images]
    tables = {
        "map": _list_map(),
        "sections": _list_keys(shared, SECTIONS),
        "translation": _list_own(TRANSLATION, TranslationSection),
        "images": [
            *_list_keys((name for name in images if name not in shared), VISION),
            *(row for task in VISION for row in _list_own(task, VISION[task])),
        ],
        "targets": _list_own("targets.LANGUAGE", TargetSection),
        "cluster": _list_own("cluster.TASK", ClusterSection),
        "variables": _list_variables(),
        "internal": [(each.name, "", each.meaning) for each in variables.INTERNAL],
    }
    return _BLOCK.sub(lambda block: block[1] + _draw(tables[block[2]]), page)


def list_settings() -> list[str]:
    """Return the names of all settings for operators."""
    blocks = (block[0] for block in _BLOCK.finditer(PAGE.read_text("utf-8")))
    return [
        name
        for block in blocks
        if "generated: internal" not in block
        for name in re.findall(r"(?m)^\| `(\w\S*)` \|", block)
    ]


def _draw(rows: Iterable[Row]) -> str:
    """Render a Markdown table, without the column of defaults if there are none."""
    lines = [(f"`{name}`", default, meaning) for name, default, meaning in rows]
    has_defaults = any(default for _, default, _ in lines)
    kind = "variable" if lines[0][0].isupper() else "key"
    head = [f"| {kind} | default | meaning |", "|---|---|---|"]
    if not has_defaults:
        head = [f"| {kind} | meaning |", "|---|---|"]
    body = (" | ".join(filter(None, line)) for line in lines)
    return "\n".join([*head, *(f"| {cells} |" for cells in body), ""])


def _list_map() -> Iterator[Row]:
    for name in ("cuda_id", "gpus"):
        field = Map.model_fields[name]
        yield name, {"gpus": "counted"}.get(name, "none"), field.description or ""
    for task, section in SECTIONS.items():
        yield task, "`{}`" if task == TRANSLATION else "none", getdoc(section) or ""
    yield "cluster", "`{}`", Map.model_fields["cluster"].description or ""


def _list_keys(
    names: Iterable[str], sections: Mapping[str, type[Section]]
) -> Iterator[Row]:
    """Yield the keys of all these sections, with the defaults of those that differ."""
    for name in names:
        defaults = {
            task: _show(section.model_fields[name].default)
            for task, section in sections.items()
        }
        usual, *_ = defaults.values()
        differing = (f"{t} {each}" for t, each in defaults.items() if each != usual)
        yield name, "; ".join([usual, *differing]), _find_meaning(name)


def _find_meaning(name: str) -> str:
    """Return a key's meaning. A class that only overrides the default does not describe it."""
    shapes = (Section, VisionSection, TranslationSection)
    fields = (each.model_fields[name] for each in shapes if name in each.model_fields)
    return next(field.description for field in fields if field.description)


def _list_own(place: str, shape: type[Shape]) -> Iterator[Row]:
    """Yield the keys of an object that other tasks' sections lack. A key without a description
    has the general meaning."""
    for name, field in shape.model_fields.items():
        if name not in VisionSection.model_fields and field.description:
            yield _describe_setting(f"{place}.{name}", field)


def _list_variables() -> Iterator[Row]:
    gateways = {name_variable(n): field for n, field in Settings.model_fields.items()}
    internal = {each.name for each in variables.INTERNAL}
    for name, field in gateways.items():
        if name not in internal:
            yield _describe_setting(name, field)
    for each in (*variables.SETTINGS, *variables.FOREIGN):
        if each.name not in gateways:
            yield each.name, _show(each.default or None), each.meaning


def _describe_setting(name: str, field: FieldInfo) -> Row:
    return name, _show(field.default), field.description or ""


def _show(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, Path) and default.is_relative_to(ROOT):
        default = default.relative_to(ROOT)
    if isinstance(default, tuple):
        default = ",".join(default)
    return f"`{default}`"
