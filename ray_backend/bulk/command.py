"""`python -m ray_backend bulk`: translates files of texts or captions videos, any number."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

import catalog
from catalog import CPU, Catalog, CatalogError, Model, checkpoint
from clients.captions import SubtitleFormat
from clients.console import (
    ColumnNames,
    EveryFrame,
    FullSize,
    NewNames,
    NoQuotes,
    SourceLanguage,
    console,
    show_errors,
    show_progress,
    show_remarks,
)
from clients.errors import ClientError, InputError
from clients.frames import Every, VideoOptions
from clients.tables import name_columns
from contract import variables
from contract.cpus import count_cpus
from contract.languages import list_variants
from contract.options import BEAM_SIZE
from contract.tasks import CAPTIONING, TRANSLATION
from handlers.engine.directories import ModelError
from ray_backend.bulk.executor import STOPPED, WorkerPool, connect, find_cluster, fit
from ray_backend.bulk.job import BulkCaptioning, BulkJob, BulkTranslation, run
from ray_backend.bulk.storage import find, open_store
from ray_backend.deployment import has_gpus
from text.errors import LanguageNotServed
from text.options import (
    AUTO,
    TAGS,
    TranslationRequest,
    read_candidates,
    read_source,
    read_target,
)

_warn = partial(console.print, style="yellow")


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
            metavar="DST",
            help="The folder for the results, here or in an object store.",
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
    language: SourceLanguage = None,
    column: ColumnNames = None,
    into: NewNames = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Texts are text, html or xml, whose tags stay; captions become jsonl, "
            "srt or vtt.",
        ),
    ] = None,
    no_quotes: NoQuotes = False,
    every: EveryFrame = "1",
    full_size: FullSize = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes with the model; without it, as many as the map says.", min=1
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
            "--overwrite", help="Remove results that are there, and begin again."
        ),
    ] = False,
) -> None:
    """Translate or caption files in bulk, with the map's models and without a stack. To
    continue a run that was stopped, repeat the command."""
    errors = ClientError, CatalogError, LanguageNotServed, ModelError
    with show_errors(*errors, stopped=STOPPED):
        models = catalog.load(
            catalog.ROOT / variables.MAP.read(),
            gpus=None,
            model=variables.MODEL.read() or None,
            is_cluster=address is not None,
        )
        job: BulkJob
        if target is None:
            job = BulkCaptioning(
                format=_read_format(models, kind),
                store=open_store(results),
                reading=VideoOptions(Every.parse(every)),
                is_full_size=full_size,
                model=models.tasks[CAPTIONING],
                cache=checkpoint.default_cache(),
            )
        else:
            request = read_request(models, target, language, kind or "text")
            job = BulkTranslation(
                request=request,
                store=open_store(results),
                columns=name_columns(column or (), into or (), request.target),
                has_quotes=not no_quotes,
                model=models.route(TRANSLATION, request.model_target),
                cache=checkpoint.default_cache(),
            )
        sources = find(source, job.kind)
        job.check(sources)
        cluster = None if address is None else find_cluster(address)
        if cluster is None:
            checkpoint.prepare(job.model, job.cache)
        elif job.model.is_on_gpu and not has_gpus(cluster.machines):
            _warn("The cluster has no GPU: the model runs on the CPU.")
            job.model = replace(job.model, devices=(CPU,))  # as `deploy` does
        pool = choose_pool(job.model, workers, cpus, gpus, is_cluster=bool(cluster))
        if cluster and (fitting := fit(pool, cluster.machines)).size < pool.size:
            _warn(f"{fitting.size} of {pool.size} workers have room.")
            pool = fitting
        with (
            connect(pool, _warn, cluster) as executor,
            show_progress(job.unit) as report,
        ):
            totals = run(
                *(job, sources, executor.run),
                report=report,
                say=show_remarks,
                is_overwrite=overwrite,
            )
        if totals.skipped:
            console.print(f"{totals.skipped} results were there already")
        if totals.failed:
            raise typer.Exit(1)


def read_request(
    models: Catalog, target: str, source: str | None, kind: str
) -> TranslationRequest:
    """Read the options as `POST /translate` does. Raises InputError or LanguageNotServed."""
    if kind not in TAGS:
        expected = " or ".join(f'"{each}"' for each in TAGS)
        raise InputError(f"format: found a string, expected {expected}")
    several = source.split(",") if source and "," in source else ()
    return TranslationRequest(
        source=read_source(AUTO if several else source or AUTO, models.languages),
        languages=read_candidates(several, checkpoint.find_sources(models)),
        target=read_target(target, list_variants(models.languages)),
        texts=("",),
        is_list=False,
        tags=TAGS[kind],
        splitting="lines" if kind == "text" else "sentences",
        beam_size=min(BEAM_SIZE.default, models.translation.max_beam_size),
    )


def choose_pool(
    model: Model,
    workers: int | None,
    cpus: int | None,
    gpus: float | None,
    *,
    is_cluster: bool,
) -> WorkerPool:
    """The workers of a model, and what each takes unless the command says so."""
    size, options = workers or model.workers, model.cluster
    if not model.is_on_gpu:
        share = 1 if is_cluster else max(1, count_cpus() // size)
        return WorkerPool(size, cpus or share, 0)
    if gpus is None:
        gpus = 1 / model.settings.workers if options.gpus == "auto" else options.gpus
    has_kind = is_cluster and options.accelerator != "any"
    return WorkerPool(size, cpus or 1, gpus, options.accelerator if has_kind else None)


def _read_format(models: Catalog, kind: str | None) -> SubtitleFormat:
    if CAPTIONING not in models.tasks:
        raise InputError(
            "the map serves no captioning: name a language with --to to translate texts"
        )
    if kind not in (None, *SubtitleFormat):
        raise InputError(
            f"--format {kind}: expected {', '.join(SubtitleFormat)} for captions"
        )
    return SubtitleFormat(kind or SubtitleFormat.JSONL)
