"""`python -m benchmarks engine`: one engine alone, at every precision and batch size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.figures import show
from benchmarks.instruments import bare
from benchmarks.instruments.bare import Configuration
from benchmarks.instruments.passes import Measurement, Plan, Skipped
from benchmarks.instruments.sentences import draw
from benchmarks.measure.study import draw_batches
from benchmarks.options import (
    Limit,
    Model,
    Out,
    Plot,
    check_plot,
    explain_errors,
    measure_all,
    publish,
    publish_plot,
    read_numbers,
    read_words,
)
from benchmarks.plots import Chart
from benchmarks.report import Content, Table

_HEADERS = (
    *("engine", "precision", "batch", "sentences/s", "tokens/s"),
    *("ms per batch", "ms per item", "memory MB", "GPU MB"),
)


def command(
    *,
    model: Model = "models/phrasebook",
    engines: Annotated[
        str, typer.Option(help="ctranslate2, transformers or both.")
    ] = "ctranslate2,transformers",
    compute_types: Annotated[
        str, typer.Option(help="Precisions; an engine skips those that it has not.")
    ] = "float32,bfloat16,float16,int8",
    batches: Annotated[
        str, typer.Option(help="Numbers of sentences in a batch.")
    ] = "1,2,4,8,16,32,64,128,256",
    sentences: Annotated[
        int, typer.Option(help="Sentences of a pass; of a larger batch one is a pass.")
    ] = 64,
    repetitions: Annotated[int, typer.Option(help="Passes that count.", min=1)] = 5,
    limit_s: Limit = 60,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Out = Path("run/benchmark-engine.json"),
    plot: Plot = None,
) -> None:
    """Sentences/s, tokens/s, time and memory of the engines alone, batch by batch.

    Each engine in each precision runs in its own process.
    """
    with explain_errors():
        check_plot(plot)
        sizes = tuple(sorted(read_numbers(batches)))
        directory = bare.find_model(model)
        plans = [
            Plan(
                Configuration(directory, engine, compute_type, device),
                batches=sizes,
                items=draw(max(sentences, *sizes)),
                pass_items=sentences,
                repetitions=repetitions,
                limit_s=limit_s,
            )
            for engine, compute_type in product(
                read_words(engines), read_words(compute_types)
            )
        ]
        results = measure_all(plans)
        measured = [result for result in results if isinstance(result, Measurement)]
        skipped = [result for result in results if isinstance(result, Skipped)]
        options = {"model": model, "device": device, "limit_s": limit_s}
        content = Content("engine", options, {"measured": measured, "skipped": skipped})
        publish(out, tabulate(results), content)
        publish_plot(plot, list(chart(measured)))


def tabulate(results: Sequence[Measurement | Skipped]) -> Table:
    """A row per batch size, and one per configuration that was skipped."""
    return Table(_HEADERS, tuple(_write_row(result) for result in results))


def chart(measured: Sequence[Measurement]) -> Iterator[Chart]:
    """Throughput and time per item, a line per engine and precision."""
    yield draw_batches(measured, "Throughput", "sentences/s")
    yield draw_batches(measured, "Time", "ms per sentence")


def _write_row(result: Measurement | Skipped) -> tuple[str, ...]:
    if isinstance(result, Skipped):
        start = (*result.label, result.reason)
        return start + ("–",) * (len(_HEADERS) - len(start))
    return (
        *(*result.label, str(result.batch)),
        *(str(result.items_per_s), show(result.tokens_per_s)),
        *(str(result.ms_per_batch), show(result.ms_per_item)),
        *(show(result.memory_mb), show(result.gpu_memory_mb)),
    )
