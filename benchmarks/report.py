"""Writes figures as a JSON file and a table."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from pydantic_core import to_json
from rich import table as rich_table

_PACKAGES = ("ctranslate2", "torch", "torchserve", "transformers")


@dataclass(frozen=True)
class Table:
    """Cells, as they are shown."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Content:
    """What a benchmark's JSON file says, beside the machine."""

    benchmark: str
    #: What the command was asked for.
    options: Mapping[str, Any]
    results: Any


def to_markdown(table: Table) -> str:
    """The table for docs/performance.md."""
    lines = [table.headers, ("---",) * len(table.headers), *table.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_rich(table: Table) -> rich_table.Table:
    """The table for the terminal."""
    shown = rich_table.Table()
    for number, header in enumerate(table.headers):
        shown.add_column(header, justify="right" if number else "left")
    for row in table.rows:
        shown.add_row(*row)
    return shown


def save(out: Path, content: Content) -> None:
    """Writes the JSON file. Numbers that are not finite become null."""
    document = {"machine": describe_machine(), **vars(content)}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(to_json(document, indent=2, inf_nan_mode="null") + b"\n")


def describe_machine() -> dict[str, Any]:
    """The machine, on which the figures depend."""
    return {
        "processor": _read_processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {package: version(package) for package in _PACKAGES},
    }


def _read_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return next(names, platform.processor()).strip()
