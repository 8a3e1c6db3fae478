"""Summarises measured values, and publishes them: tables, charts and files."""

import math
import operator
import os
import platform
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil
from pydantic_core import to_json

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Spread:
    """The median, the smallest and the largest of repeated measurements."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{show(self.median)} ({show(self.low)}–{show(self.high)})"


@dataclass(frozen=True)
class Latencies:
    """Percentiles and the mean of the answers' latencies; None if there were no answers."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    mean_ms: float | None = None


def summarize_latencies(
    seconds: Sequence[float], weights: Sequence[float] | None = None
) -> Latencies:
    """Return percentiles in milliseconds of times in seconds, each counted with its weight."""
    if not len(seconds):
        return Latencies(None, None, None)
    ms = np.array(seconds) * 1000
    shares = (0.5, 0.95, 0.99)
    found = np.quantile(ms, shares, weights=weights, method="inverted_cdf")
    p50, p95, p99 = map(float, found)
    return Latencies(p50, p95, p99, float(np.average(ms, weights=weights)))


def spread(values: Iterable[float]) -> Spread:
    """Return the spread of one or more values."""
    values = list(values)
    return Spread(statistics.median(values), min(values), max(values))


def find_ratio(
    ours: Sequence[float | None],
    theirs: Sequence[float | None],
    relate: Callable[[float, float], float] = operator.truediv,
) -> Spread | None:
    """Return the spread of `relate(ours, theirs)` over all rounds; None if none has both."""
    pairs = zip(ours, theirs, strict=True)
    ratios = [relate(our, their) for our, their in pairs if our is not None and their]
    return spread(ratios) if ratios else None


def group(
    values: Iterable[Value], key: Callable[[Value], Key]
) -> dict[Key, list[Value]]:
    """Group values by key, in their original order."""
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def show(value: float | None) -> str:
    """Format a number with three digits, more than a benchmark's precision; None as `–`."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{value:,.{digits}f}"


_PACKAGES = ("ctranslate2", "torch", "torchserve", "transformers")

#: Rows of formatted cells; the first row has the headers.
FigureTable = Sequence[Sequence[str]]
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A chart of named lines and of named sets of separate points."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Points]
    dots: Mapping[str, Points] = field(default_factory=dict)
    is_logarithmic: bool = False


@dataclass(frozen=True)
class Findings:
    """The figures of a benchmark, as a table and for its JSON file."""

    table: FigureTable
    results: Any
    #: Lines for the terminal.
    remarks: Sequence[str] = ()
    charts: Sequence[Chart] = ()


def flatten(item: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by column header, with those of nested dataclasses and
    mappings: `load.requests_per_s` is `requests/s`, and `cpu_ms["nginx"]` is `nginx cpu ms`.
    The keys of a mapping are already headers."""
    if isinstance(item, Mapping):
        return dict(item)
    cells: dict[str, Any] = {}
    for one in fields(item):
        value = getattr(item, one.name)
        name = one.name.replace("_per_s", "/s")
        name = name.replace("_", " ")
        if isinstance(value, Mapping):
            cells |= {f"{key} {name}": part for key, part in value.items()}
        elif is_dataclass(value) and not isinstance(value, Spread):
            cells |= flatten(value)
        else:
            cells[name] = value
    return cells


def tabulate(items: Iterable[Any]) -> FigureTable:
    """Make a table with a row per item and the fields that some item has; floats get three
    digits, all else is unchanged."""

    def write(value: Any) -> str:
        is_figure = value is None or isinstance(value, float)
        return show(value) if is_figure else str(value)

    cells = list(map(flatten, items))
    known = (name for row in cells for name in row if row[name] is not None)
    headers = tuple(dict.fromkeys(known))
    return [headers, *([write(row.get(name)) for name in headers] for row in cells)]


def plot(items: Iterable[Any], x: str, y: str, line: str) -> Chart:
    """Plot column `y` over column `x`, with a line for each value of column `line`."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for cells in map(flatten, items):
        value = cells[y]
        if value is not None:
            value = value.median if isinstance(value, Spread) else value
            lines.setdefault(str(cells[line]), []).append((cells[x], value))
    return Chart(y, x, y, lines)


def draw_charts(charts: Sequence[Chart], path: Path) -> None:
    """Draw the charts side by side in the format of the file extension. Raises ValueError."""
    # Many tests import this module, but few draw charts.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(charts), 4), layout="constrained")
    axes = figure.subplots(1, len(charts), squeeze=False)[0]
    for chart, axis in zip(charts, axes, strict=True):
        for kind, size, curves in (("o-", 6, chart.lines), ("x", 10, chart.dots)):
            for name, points in curves.items():
                axis.plot(*zip(*points, strict=True), kind, markersize=size, label=name)
        axis.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
        if chart.is_logarithmic:
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_major_formatter("{x:g}")
        axis.grid(visible=True, alpha=0.3)
        if chart.lines or chart.dots:
            axis.legend(fontsize="small", framealpha=0.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def compare_turns(
    cases: Mapping[str, Mapping[str, Sequence[Any]]],
    figures: Sequence[str] = (),
    *,
    case: str = "",
    is_added: bool = False,
) -> Findings:
    """Compare the first way of each case with the others, round by round: by their ratio, or
    by the difference if `is_added`. `figures` are headers of `flatten`; all if empty.

    Each way has a row: counts are summed, other figures are medians, the first of them with
    its extremes. `case` is the header of the column of cases, which is omitted if empty.
    """
    rows, relations = [], []
    every = (turn for ways in cases.values() for some in ways.values() for turn in some)
    figures = figures or list(
        dict.fromkeys(name for one in every for name in flatten(one))
    )
    relate = (lambda first, other: other - first) if is_added else operator.truediv
    for name, ways in cases.items():
        label = (name,) if case else ()
        first, *_ = ways
        for way, turns in ways.items():
            cells = list(map(flatten, turns))
            values = {key: [turn.get(key) for turn in cells] for key in figures}
            rows.append((*label, way, *_summarize(values)))
            if way == first:
                ours = values
                continue
            title = f"{way} - {first}" if is_added else f"{first} / {way}"
            related = {
                key: None
                if any(isinstance(value, int) for value in values[key])
                else find_ratio(ours[key], values[key], relate)
                for key in figures
            }
            rows.append((*label, title, *(str(one or "–") for one in related.values())))
            relations.append({"case": name, "title": title, "figures": related})
    headers = (*((case,) if case else ()), "", *figures)
    return Findings([headers, *rows], {"turns": cases, "relations": relations})


def _summarize(values: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for number, some in enumerate(values.values()):
        known = [value for value in some if value is not None]
        if known and all(isinstance(value, int) for value in known):
            yield str(sum(known))
        elif known and not number:
            yield str(spread(known))
        else:
            yield show(statistics.median(known) if known else None)


def to_markdown(table: FigureTable) -> str:
    """Return the table as Markdown, with aligned cells for a terminal."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    header, *rows = (
        f"| {' | '.join(map(str.ljust, line, widths))} |\n" for line in table
    )
    return "".join((header, f"|{'---|' * len(widths)}\n", *rows))


def write_tables(page: str, tables: Mapping[str, FigureTable]) -> str:
    """Return a Markdown page with the tables of these sections replaced. Raises ValueError for
    a section without a table."""
    for section, table in tables.items():
        lines = re.sub(" +[|]", " |", to_markdown(table)).replace("\\", r"\\")
        place = rf"(?ms)(^## {re.escape(section)}$(?:(?!^## ).)*?)(?:^\|.*?\n)+"
        page, count = re.subn(place, rf"\g<1>{lines}", page)
        if not count:
            raise ValueError(f"expected a table in the section {section!r}")
    return page


def save(out: Path, benchmark: str, options: Mapping[str, Any], results: Any) -> None:
    """Write the JSON file of a benchmark. Numbers that are not finite become null."""
    content = {
        "machine": describe_machine(),
        "benchmark": benchmark,
        "options": options,
        "results": results,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(to_json(content, indent=2, inf_nan_mode="null") + b"\n")


def describe_machine() -> dict[str, Any]:
    """Describe the machine, on which the figures depend."""
    text = Path("/proc/cpuinfo").read_text("utf-8")
    processor = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return {
        "processor": processor[1].strip() if processor else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {package: version(package) for package in _PACKAGES},
    }
