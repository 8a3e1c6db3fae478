"""`python -m benchmarks study`: how long a model's handler takes at every batch size."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import catalog
from benchmarks.figures import group, show
from benchmarks.instruments import running
from benchmarks.instruments.passes import Measurement, Plan, Skipped
from benchmarks.instruments.tasks import TaskSubject
from benchmarks.instruments.workload import draw_requests
from benchmarks.options import (
    Limit,
    Out,
    Plot,
    Task,
    check_plot,
    console,
    explain_errors,
    measure_all,
    publish,
    publish_plot,
    read_numbers,
    read_range,
    read_settings,
    read_words,
)
from benchmarks.plots import Chart
from benchmarks.report import Content, Table
from contract.tasks import TRANSLATION

#: Items in a pass; a larger batch is a pass by itself.
_PASS_ITEMS = 64
#: The knee is the smallest batch that has so much of the best throughput.
_KNEE_SHARE = 0.9
_HEADERS = (
    *("device", "batch", "ms per batch", "ms per item", "items/s", "tokens/s"),
    *("memory MB", "GPU MB", ""),
)
_COLUMNS = (
    *("device", "batch", "repetitions", "ms_per_batch", "ms_least", "ms_most"),
    *("ms_per_item", "items_per_s", "tokens_per_s", "memory_mb", "gpu_mb"),
)


def command(
    *,
    task: Task = TRANSLATION,
    model: Annotated[
        str, typer.Option(help="A directory or hub name; the task's own otherwise.")
    ] = "",
    devices: Annotated[
        str, typer.Option(help="`cpu` and numbers of GPUs, with commas between.")
    ] = "cpu",
    batches: Annotated[
        str, typer.Option(help="Numbers of items in a batch.")
    ] = "1,2,4,8,16,32,64,128,256",
    repetitions: Annotated[int, typer.Option(help="Passes that count.", min=1)] = 10,
    limit_s: Limit = 30,
    language: Annotated[str, typer.Option(help="To translate into.")] = "fr",
    tokens: Annotated[
        str, typer.Option(help="LEAST-MOST: texts with about this many tokens.")
    ] = "",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE in the task's section of the map."),
    ] = None,
    out: Out = Path("run/benchmark-study.json"),
    plot: Plot = None,
) -> None:
    """Time, throughput and memory of a model's handler, batch size by batch size.

    The handler is loaded as TorchServe loads it, each device in its own process. The knee
    is the smallest batch with nine tenths of the best throughput.
    """
    with explain_errors():
        check_plot(plot)
        sizes = tuple(sorted(read_numbers(batches)))
        requests = draw_requests(
            task,
            max(_PASS_ITEMS, *sizes),
            targets=[language],
            tokens=read_range(tokens),
        )
        settings = read_settings(setting or ()) | ({"model": model} if model else {})
        plans = [
            Plan(
                TaskSubject(_find_model(task, language, device, settings)),
                batches=sizes,
                items=tuple(request.body for request in requests),
                pass_items=_PASS_ITEMS,
                repetitions=repetitions,
                limit_s=limit_s,
            )
            for device in read_words(devices)
        ]
        results = measure_all(plans)
        measured = [result for result in results if isinstance(result, Measurement)]
        skipped = [result for result in results if isinstance(result, Skipped)]
        for reason in skipped:
            console.print(f"{' '.join(reason.label)}: {reason.reason}", markup=False)
        options = {"task": task, "settings": settings}
        content = Content("study", options, {"measured": measured, "skipped": skipped})
        publish(out, tabulate(measured), content)
        write_csv(out.with_suffix(".csv"), measured)
        publish_plot(plot, list(chart(measured)))


def find_knee(measured: Sequence[Measurement]) -> Measurement:
    """The knee of one device."""
    best = max(m.items_per_s.median for m in measured)
    return next(m for m in measured if m.items_per_s.median >= _KNEE_SHARE * best)


def tabulate(measured: Sequence[Measurement]) -> Table:
    """A row per device and batch size; the knee is marked."""
    knees = [*map(find_knee, _by_device(measured))]
    return Table(
        _HEADERS,
        tuple(
            (
                *(*m.label, str(m.batch), str(m.ms_per_batch), show(m.ms_per_item)),
                *(show(m.items_per_s.median), show(m.tokens_per_s)),
                *(
                    show(m.memory_mb),
                    show(m.gpu_memory_mb),
                    "knee" if m in knees else "",
                ),
            )
            for m in measured
        ),
    )


def write_csv(path: Path, measured: Sequence[Measurement]) -> None:
    """A row per device and batch size."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for m in measured:
            ms = m.ms_per_batch
            writer.writerow(
                (
                    *(*m.label, m.batch, m.repetitions, ms.median, ms.low, ms.high),
                    *(m.ms_per_item, m.items_per_s.median, m.tokens_per_s),
                    *(m.memory_mb, m.gpu_memory_mb),
                )
            )


def chart(measured: Sequence[Measurement]) -> Iterator[Chart]:
    """Time per item and throughput over batch size, a line per device."""
    knees = [find_knee(some) for some in _by_device(measured)]
    yield draw_batches(measured, "Time", "ms per item", knees)
    yield draw_batches(measured, "Throughput", "items/s", knees)


def draw_batches(
    measured: Sequence[Measurement],
    title: str,
    y_label: str,
    knees: Sequence[Measurement] = (),
) -> Chart:
    """The time per item, or else the rate, over batch size: a line per subject."""

    def read(m: Measurement) -> tuple[float, float]:
        return m.batch, m.ms_per_item if title == "Time" else m.items_per_s.median

    return Chart(
        title,
        "batch",
        y_label,
        {" ".join(some[0].label): [*map(read, some)] for some in _by_device(measured)},
        is_logarithmic=True,
        dots={"knee": [*map(read, knees)]} if knees else {},
    )


def _by_device(measured: Sequence[Measurement]) -> list[list[Measurement]]:
    return list(group(measured, lambda m: m.label).values())


def _find_model(
    task: str, language: str, device: str, settings: Mapping[str, Any]
) -> catalog.Model:
    """The model as the map would have it."""
    with tempfile.TemporaryDirectory() as folder:
        map_path = running.write_map(
            Path(folder) / "map.json",
            settings,
            [language],
            device=device,
            task=task,
        )
        return running.read_map(map_path).models[0]
