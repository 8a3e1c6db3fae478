"""`python -m ray_backend bulk`: translates files of texts or captions videos, any number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

import catalog
from catalog import CPU, Catalog, CatalogError, Model, checkpoint
from clients.errors import ClientError, InputError
from clients.frames import Every, Reading
from clients.progress import show_progress
from clients.subtitles import Format
from clients.tables.table import Column, name_columns
from contract import variables
from contract.cpus import count_cpus
from contract.tasks import CAPTIONING, TRANSLATION
from gateway.errors import Problem
from gateway.schemas import TranslationLimits, parse_translation
from handlers.engine.directories import ModelError
from ray_backend.bulk.cluster import RayMachines, join, start
from ray_backend.bulk.joining import Cluster, find_cluster
from ray_backend.bulk.room import Pool, fit
from ray_backend.bulk.running import Listeners, Outcome, run
from ray_backend.bulk.sources import find
from ray_backend.bulk.texts import TextTask
from ray_backend.bulk.videos import VideoTask
from ray_backend.bulk.watch import STOPPED
from ray_backend.bulk.workspace import Workspace, open_store
from ray_backend.deployment import has_gpus
from text.options import TranslationRequest

#: Results go to files; what is said goes past a pipe.
console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="A folder, a file, or a quoted pattern of files; or a folder or an object "
            "of an object store, s3://bucket/folder.",
        ),
    ],
    results: Annotated[
        str,
        typer.Argument(
            metavar="DST", help="The folder for the results, of either kind."
        ),
    ],
    *,
    target: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="The language to translate into. Without it, videos are captioned.",
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--from", help="The language of the texts; without it, it is identified."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="The column with texts; again for each further one."),
    ] = None,
    into: Annotated[
        list[str] | None,
        typer.Option(
            help="The new column, once for each --column. Without it, text_fr for text."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="For texts text, html or xml, whose tags stay; for captions jsonl, srt "
            "or vtt.",
        ),
    ] = None,
    no_quotes: Annotated[
        bool,
        typer.Option(
            "--no-quotes",
            help="In .tsv files, quotes are characters like all others.",
        ),
    ] = False,
    every: Annotated[
        str,
        typer.Option(
            help="Take each N-th frame (10), or one each so often (1s, 0.5s)."
        ),
    ] = "1",
    full_size: Annotated[
        bool,
        typer.Option(
            "--full-size",
            help="Take frames as they are, not scaled to what the model takes.",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes with the model; without it, the model's of the map.", min=1
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(
            help="Cores of a worker; without it, an equal share of this machine's.",
            min=1,
        ),
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option(
            help="GPUs of a worker, 0.5 for a half; without it, as the map says.", min=0
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="A cluster's head, such as 10.0.0.1:7800; without it, this machine."
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Remove results that are there, and begin anew."
        ),
    ] = False,
) -> None:
    """Translate or caption files in bulk, with the map's models and without a stack. To
    continue a run that was stopped, repeat the command."""
    with _errors():
        models = _load_map(is_cluster=address is not None)
        workspace = Workspace(open_store(results))
        task: TextTask | VideoTask
        if target is None:
            reading = Reading(Every.parse(every))
            task = _make_video_task(models, workspace, reading, kind)
            task = replace(task, is_full_size=full_size)
        else:
            wanted = read_wanted(models, target, language, kind or "text")
            named = name_columns(column or (), into or (), wanted.target)
            task = _make_text_task(models, workspace, wanted, named)
            task = replace(task, has_quotes=not no_quotes)
        sources = find(source, task.sources)
        task.check(sources)
        cluster = None if address is None else find_cluster(address)
        if cluster:
            task = replace(task, model=_place(task.model, cluster))
        else:
            checkpoint.prepare(task.model, task.cache)
        pool = choose_pool(task.model, workers, cpus or (1 if cluster else None), gpus)
        pool = _fit(pool, task.model, cluster) if cluster else pool
        with (
            _stopping(),
            _connect(pool, cluster) as machines,
            show_progress(console, task.unit) as tell,
        ):
            listeners = Listeners(tell, _say("red"), _say("yellow"))
            outcome = run(task, sources, machines, listeners, is_overwrite=overwrite)
        _conclude(outcome, task.unit)


def read_wanted(
    models: Catalog, target: str, source: str | None, kind: str
) -> TranslationRequest:
    """What `POST /translate` would make of the options. Raises Problem."""
    body = {"src_text": "", "tgt_lang": target, "format": kind}
    body |= {"src_lang": source} if source else {}
    limits = TranslationLimits(
        targets=models.languages,
        max_texts=1,
        max_beam_size=models.translation.max_beam_size,
        max_alternatives=models.translation.max_alternatives,
    )
    return parse_translation(body, limits)


def _load_map(*, is_cluster: bool) -> Catalog:
    return catalog.load(
        catalog.ROOT / variables.MAP.read(),
        gpus=None,
        model=variables.MODEL.read() or None,
        is_cluster=is_cluster,
    )


def _make_text_task(
    models: Catalog,
    workspace: Workspace,
    wanted: TranslationRequest,
    columns: Sequence[Column],
) -> TextTask:
    return TextTask(
        workspace=workspace,
        columns=tuple(columns),
        has_quotes=True,
        wanted=wanted,
        model=models.route(TRANSLATION, wanted.target),
        cache=checkpoint.default_cache(),
    )


def _make_video_task(
    models: Catalog, workspace: Workspace, reading: Reading, kind: str | None
) -> VideoTask:
    if CAPTIONING not in models.tasks:
        raise InputError(
            "the map serves no captioning: name a language with --to to translate texts"
        )
    if kind not in (None, *Format):
        raise InputError(f"--format {kind}: expected {', '.join(Format)} for captions")
    return VideoTask(
        workspace=workspace,
        reading=reading,
        is_full_size=False,
        kind=Format(kind or Format.JSONL),
        model=models.tasks[CAPTIONING],
        cache=checkpoint.default_cache(),
    )


def choose_pool(
    model: Model, workers: int | None, cpus: int | None, gpus: float | None
) -> Pool:
    """The workers of a model, and what each takes unless the command says so."""
    size = workers or model.workers
    if not model.is_on_gpu:
        return Pool(size, cpus or max(1, count_cpus() // size), 0)
    share = model.settings.gpus
    usual = 1 / model.settings.workers if share == "auto" else share
    return Pool(size, cpus or 1, usual if gpus is None else gpus)


def _place(model: Model, cluster: Cluster) -> Model:
    """The model where `deploy` would have it."""
    if not model.is_on_gpu or has_gpus(cluster.machines):
        return model
    _say("yellow")("The cluster has no GPU: the model runs on the CPU.")
    return replace(model, devices=(CPU,))


def _fit(pool: Pool, model: Model, cluster: Cluster) -> Pool:
    """The workers that the cluster has machines for. Raises InputError."""
    wanted = model.settings.accelerator
    if model.is_on_gpu and wanted != "any":
        pool = replace(pool, accelerator=wanted)
    fitting = fit(pool, cluster.machines)
    if fitting.size < pool.size:
        _say("yellow")(f"{fitting.size} of {pool.size} workers have room.")
    return fitting


def _connect(
    pool: Pool, cluster: Cluster | None
) -> AbstractContextManager[RayMachines]:
    return join(pool, cluster, _say("yellow")) if cluster else start(pool)


def _say(style: str) -> Callable[[str], None]:
    return partial(console.print, style=style)


def _conclude(outcome: Outcome, unit: str) -> None:
    if outcome.skipped:
        console.print(f"{outcome.skipped} results were there already")
    if console.is_terminal:
        console.print(f"{outcome.count} {unit}")
    if outcome.failed:
        raise typer.Exit(1)


@contextmanager
def _stopping() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        console.print(STOPPED)
        raise typer.Exit(130) from error


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        _say("red")(problem.detail)
        raise typer.Exit(1) from problem
    except (ClientError, CatalogError, ModelError) as error:
        _say("red")(str(error))
        raise typer.Exit(1) from error
