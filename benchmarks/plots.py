"""Draws charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_INCHES = (6.0, 4.0)


@dataclass(frozen=True)
class Chart:
    """Lines through points, each with its name."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    is_logarithmic: bool = False
    #: Points without a line.
    dots: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)


class PlotError(ValueError):
    """The chart cannot be drawn; the message says what to do."""


def load_figure() -> Any:
    """matplotlib's class. Raises PlotError if matplotlib is missing."""
    try:
        from matplotlib.figure import (  # type: ignore[import-not-found, unused-ignore]
            Figure,
        )
    except ImportError as error:
        raise PlotError(
            "A picture needs matplotlib: `make .venv/ready-dev` installs it."
        ) from error
    return Figure


def draw(charts: Sequence[Chart], path: Path) -> None:
    """Draws the charts side by side in the format of the path's ending. Raises PlotError."""
    width, height = _INCHES
    size = (width * len(charts), height)
    figure = load_figure()(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(charts), squeeze=False)[0]
    for chart, axis in zip(charts, axes, strict=True):
        for name, points in chart.lines.items():
            axis.plot(*zip(*points, strict=True), marker="o", label=name)
        for name, points in chart.dots.items():
            axis.scatter(*zip(*points, strict=True), marker="x", label=name)
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
