"""`python -m ray_backend bulk`: translates any number of text files, or captions videos."""

from dataclasses import replace
from functools import partial

import typer

import catalog
from catalog import CPU, Catalog, CatalogError, Model, checkpoint
from clients import console
from clients.captions import SubtitleFormat
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
from text import options
from text.errors import LanguageNotServed

_warn = partial(console.console.print, style="yellow")


@console.explain
def command(
    source: str,
    results: str,
    *,
    target: str | None = None,
    language: str | None = None,
    column: list[str] | None = None,
    into: list[str] | None = None,
    kind: str | None = None,
    no_quotes: bool = False,
    every: str = "1",
    full_size: bool = False,
    workers: int | None = None,
    cpus: int | None = None,
    gpus: float | None = None,
    address: str | None = None,
    overwrite: bool = False,
) -> None:
    """Translate or caption files in bulk, with the map's models and without a stack. To
    continue a stopped run, repeat the command."""
    errors = ClientError, CatalogError, LanguageNotServed, ModelError
    with console.show_errors(*errors, stopped=STOPPED):
        models = catalog.load(
            catalog.ROOT / variables.MAP.read(),
            gpus=None,
            model=variables.MODEL.read() or None,
            is_cluster=address is not None,
        )
        job: BulkJob
        kinds = SubtitleFormat if target is None else options.TAGS
        if kind not in (None, *kinds):
            raise InputError(f"--format {kind}: expected {', '.join(kinds)}")
        if target is None:
            if CAPTIONING not in models.tasks:
                raise InputError("the map serves no captioning; to translate, add --to")
            job = BulkCaptioning(
                format=SubtitleFormat(kind or SubtitleFormat.JSONL),
                store=open_store(results),
                reading=VideoOptions(Every.parse(every)),
                is_full_size=full_size,
                model=models.tasks[CAPTIONING],
            )
        else:
            models = replace(models, reads=checkpoint.find_reads(models))
            request = read_request(models, target, language, kind or "text")
            job = BulkTranslation(
                request=request,
                store=open_store(results),
                columns=name_columns(column or (), into or (), request.target),
                has_quotes=not no_quotes,
                model=choose_model(models, request),
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
            _warn(f"There is room for {fitting.size} of {pool.size} workers.")
            pool = fitting
        with (
            connect(pool, _warn, cluster) as executor,
            console.show_progress(job.unit) as report,
        ):
            there, wrong = run(
                job,
                sources,
                executor.run,
                report=report,
                say=console.show_remarks,
                is_overwrite=overwrite,
            )
        if there:
            console.console.print(f"{there} results already existed")
        if wrong:
            raise typer.Exit(1)


def read_request(
    models: Catalog, target: str, source: str | None, kind: str
) -> options.TranslationRequest:
    """Read the options as `POST /translate` does. Raises LanguageNotServed."""
    several = source.split(",") if source and "," in source else ()
    known = checkpoint.find_sources(models)
    return options.TranslationRequest(
        source=options.read_source(
            options.AUTO if several else source or options.AUTO,
            models.languages,
            list_variants(known),
        ),
        languages=options.read_candidates(several, known),
        written=models.languages,
        target=options.read_target(target, list_variants(models.languages)),
        texts=("",),
        is_list=False,
        tags=options.TAGS[kind],
        splitting="lines" if kind == "text" else "sentences",
        beam_size=min(BEAM_SIZE.default, models.translation.max_beam_size),
    )


def choose_model(models: Catalog, request: options.TranslationRequest) -> Model:
    """Return a run's only model. Raises InputError if it does not read the source language."""
    model = models.route(TRANSLATION, request.model_target)
    source = request.model_source
    if source and not models.is_read(source, model):
        read = " ".join(models.reads[model.name])
        said = f"a run has one model, and {model.weights} reads {read}"
        raise InputError(f"--from {source}: {said}")
    return model


def choose_pool(
    model: Model,
    workers: int | None,
    cpus: int | None,
    gpus: float | None,
    *,
    is_cluster: bool,
) -> WorkerPool:
    """Return the workers of a model, with default resources unless the command sets them."""
    size = workers or model.workers
    cluster = model.cluster
    if not model.is_on_gpu:
        share = 1 if is_cluster else max(1, count_cpus() // size)
        return WorkerPool(size, cpus or share, 0)
    if gpus is None:
        gpus = 1 / model.settings.workers if cluster.gpus == "auto" else cluster.gpus
    has_kind = is_cluster and cluster.accelerator != "any"
    return WorkerPool(size, cpus or 1, gpus, cluster.accelerator if has_kind else None)
