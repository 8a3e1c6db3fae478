"""`python -m clients`: captions videos, translates files of texts and whole documents."""

import sys
from pathlib import Path
from typing import Literal

import typer

from clients.bulk import FileJob, Remarks, run_job
from clients.captions import (
    Captioner,
    CaptionJob,
    Mode,
    Sending,
    SubtitleFormat,
    plan_captions,
)
from clients.console import console, explain, show_errors, show_progress, show_remarks
from clients.documents import DocumentJob
from clients.errors import ClientError, InputError, ServerError, explain_disk
from clients.files import DOCUMENTS, TABLES, VIDEOS, find_sources, plan_translations
from clients.frames import Every, Prebatch, VideoOptions
from clients.server import DEFAULT_URL, ApiClient, RetryPolicy
from clients.tables import name_columns, open_table
from clients.translations import TranslationJob, TranslationOptions, Translator

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.callback()
def main() -> None:
    """Programs that only speak HTTP to the stack."""


@explain
@app.command()
@show_errors(ClientError)
def caption(
    videos: list[str],
    *,
    output: str,
    kind: SubtitleFormat | None = None,
    url: str = DEFAULT_URL,
    key: str = "",
    cacert: str = "",
    every: str = "1",
    mode: Mode = Mode.STREAM_PREBATCH,
    prebatch: str = "auto",
    full_size: bool = False,
    requests_in_flight: int = 8,
    attempts: int = 10,
    timeout_s: float = 120,
    decode_threads: int = 2,
    memory_limit_mb: int = 4096,
    overwrite: bool = False,
) -> None:
    """Caption videos. To continue a stopped run, repeat the command."""
    patience = RetryPolicy(attempts, timeout_s)
    with ApiClient(url, patience, requests_in_flight, key, cacert=cacert) as server:
        found = find_sources(videos, VIDEOS)
        sending = Sending(
            mode, Prebatch.parse(prebatch), requests_in_flight, memory_limit_mb << 20
        )
        parsed = Every.parse(every)
        plan, chosen = plan_captions(found, output, kind)
        size = None if full_size else server.find_input()
        reading = VideoOptions(parsed, size, decode_threads)
        _run_job(
            CaptionJob(
                sources=found,
                plan=plan,
                kind=chosen,
                url=server.url,
                captioner=Captioner(server.caption, reading, sending),
                is_overwrite=overwrite,
            )
        )


@explain
@app.command()
@show_errors(ClientError)
def translate(
    files: list[str],
    *,
    target: str,
    source: str | None = None,
    column: list[str] | None = None,
    into: list[str] | None = None,
    output: str | None = None,
    text_format: Literal["text", "html", "xml"] = "text",
    glossary: str | None = None,
    no_quotes: bool = False,
    url: str = DEFAULT_URL,
    key: str = "",
    cacert: str = "",
    requests_in_flight: int = 16,
    attempts: int = 10,
    timeout_s: float = 120,
    overwrite: bool = False,
) -> None:
    """Translate files of texts, row by row. To continue a stopped run, repeat the command."""
    patience = RetryPolicy(attempts, timeout_s)
    with ApiClient(url, patience, requests_in_flight, key, cacert=cacert) as server:
        wanted = TranslationOptions(target, source, text_format, glossary)
        translator = Translator(server, wanted)
        if files == ["-"]:
            if output or column or into:
                raise typer.BadParameter("With `-`, omit --column, --into and -o.")
            show_remarks(Remarks((), translator.follow(_read_input(), _write_output)))
            return
        columns = name_columns(column or (), into or (), target)
        found, plan = plan_translations(find_sources(files, TABLES), output, target)
        job = TranslationJob(
            sources=found,
            plan=plan,
            tables=[open_table(s, columns, has_quotes=not no_quotes) for s in found],
            translator=translator,
            requests_in_flight=requests_in_flight,
            is_overwrite=overwrite,
        )
        _run_job(job)


@explain
@app.command()
@show_errors(ClientError)
def document(
    files: list[str],
    *,
    target: str,
    source: str | None = None,
    output: str | None = None,
    glossary: str | None = None,
    documents_at_once: int = 4,
    url: str = DEFAULT_URL,
    key: str = "",
    cacert: str = "",
    attempts: int = 10,
    timeout_s: float = 120,
    overwrite: bool = False,
) -> None:
    """Translate documents on the stack. To continue a stopped run, repeat the command."""
    patience = RetryPolicy(attempts, timeout_s)
    with ApiClient(url, patience, documents_at_once + 1, key, cacert=cacert) as server:
        found, plan = plan_translations(find_sources(files, DOCUMENTS), output, target)
        job = DocumentJob(
            sources=found,
            plan=plan,
            server=server,
            wanted=TranslationOptions(target, source, glossary=glossary),
            documents_at_once=documents_at_once,
            is_overwrite=overwrite,
        )
        _run_job(job)


def _run_job(job: FileJob) -> None:
    try:
        with show_progress(job.unit) as report:
            remarks = run_job(job, report)
    except (KeyboardInterrupt, ServerError):
        if job.plan.journal.exists():
            console.print(f"Stopped. Rerun the command to resume ({job.plan.journal}).")
        raise
    show_remarks(remarks)
    if remarks.errors:
        raise typer.Exit(1)


def _read_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not UTF-8 at byte {error.start}"
        ) from error


def _write_output(text: str) -> None:
    with explain_disk(Path("standard output")):
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    app()
