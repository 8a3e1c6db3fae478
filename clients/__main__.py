"""`python -m clients`: captions videos, translates files of texts and whole documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

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
from clients.documents import DocumentJob
from clients.errors import ClientError, InputError, ServerError
from clients.files import DOCUMENTS, TABLES, VIDEOS, find_sources, plan_translations
from clients.frames import Every, Prebatch, VideoOptions
from clients.server import DEFAULT_URL, ApiClient, RetryPolicy
from clients.tables import name_columns, open_table
from clients.translations import TranslationJob, TranslationOptions, Translator
from contract import variables

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

Url = Annotated[str, typer.Option(help="Where the stack is.")]
Key = Annotated[
    str,
    typer.Option(
        envvar=variables.CLIENT_KEY.name,
        help="The stack's key, where it requires one. Other users of this machine see "
        "options, but not variables.",
    ),
]
Cacert = Annotated[
    str,
    typer.Option(
        help="A file with the certificate of a stack with TLS, or of its authority. Without "
        "it, those count that this machine trusts, or SSL_CERT_FILE."
    ),
]
RequestsInFlight = Annotated[
    int, typer.Option(help="The most requests under way.", min=1, max=256)
]
Attempts = Annotated[
    int, typer.Option(help="How often to send a request before giving up.", min=1)
]
TimeoutS = Annotated[
    float, typer.Option(help="Longest time for one attempt, in seconds.", min=0.1)
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace files that are there, and an unfinished run with other options.",
    ),
]
Target = Annotated[str, typer.Option("--to", help="The language to translate into.")]
Glossary = Annotated[
    str | None, typer.Option(help="The name or id of a glossary of the stack.")
]
TranslationOutput = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="A folder, or the file for the translation of one file. Without it, "
        "NAME.fr.csv stands beside NAME.csv.",
    ),
]


@app.callback()
def main() -> None:
    """Programs that only speak HTTP to the stack."""


@app.command()
def caption(
    videos: Annotated[
        list[str],
        typer.Argument(
            metavar="VIDEO…", help="Files, folders with videos, or quoted patterns."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="The file for the captions; for subtitles of several videos a folder.",
        ),
    ],
    kind: Annotated[
        SubtitleFormat | None,
        typer.Option(
            "--format", help="What to write; without it the suffix of -o says so."
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = "",
    cacert: Cacert = "",
    every: EveryFrame = "1",
    mode: Annotated[
        Mode,
        typer.Option(
            help="stream-prebatch: several frames per request, while the video is read. "
            "stream-single: one frame per request. single: the same, after the whole video "
            "has been read into memory."
        ),
    ] = Mode.STREAM_PREBATCH,
    prebatch: Annotated[
        str,
        typer.Option(
            help="Frames per request. auto: 32, fewer where they are over 8 MiB."
        ),
    ] = "auto",
    full_size: FullSize = False,
    requests_in_flight: RequestsInFlight = 8,
    attempts: Attempts = 10,
    timeout_s: TimeoutS = 120,
    decode_threads: Annotated[
        int, typer.Option(help="Threads that decode; 0 for one per core.", min=0)
    ] = 2,
    memory_limit_mb: Annotated[
        int, typer.Option(help="With --mode single: the most MiB of frames.", min=1)
    ] = 4096,
    overwrite: Overwrite = False,
) -> None:
    """Caption videos. To continue a run that was stopped, repeat the command."""
    with _connect(
        url, RetryPolicy(attempts, timeout_s), requests_in_flight, key, cacert=cacert
    ) as server:
        found = find_sources(videos, VIDEOS)
        sending = Sending(
            mode, Prebatch.parse(prebatch), requests_in_flight, memory_limit_mb << 20
        )
        parsed = Every.parse(every)
        plan = plan_captions(found, output, kind)
        size = None if full_size else server.find_input()
        reading = VideoOptions(parsed, size, decode_threads)
        _run_job(
            CaptionJob(
                sources=found,
                plan=plan,
                url=server.url,
                captioner=Captioner(server.caption, reading, sending),
                is_overwrite=overwrite,
            )
        )


@app.command()
def translate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Files that end in .txt, .jsonl, .csv, .tsv or .parquet, folders with "
            "such files, or quoted patterns. `-` is a text on standard input, whose "
            "translation appears on standard output while it is made.",
        ),
    ],
    target: Target,
    source: SourceLanguage = None,
    column: ColumnNames = None,
    into: NewNames = None,
    output: TranslationOutput = None,
    text_format: Annotated[
        Literal["text", "html", "xml"],
        typer.Option("--format", help="html and xml: the tags in a text stay."),
    ] = "text",
    glossary: Glossary = None,
    no_quotes: NoQuotes = False,
    url: Url = DEFAULT_URL,
    key: Key = "",
    cacert: Cacert = "",
    requests_in_flight: RequestsInFlight = 16,
    attempts: Attempts = 10,
    timeout_s: TimeoutS = 120,
    overwrite: Overwrite = False,
) -> None:
    """Translate files of texts, row by row. To continue a run that was stopped, repeat the
    command."""
    with _connect(
        url, RetryPolicy(attempts, timeout_s), requests_in_flight, key, cacert=cacert
    ) as server:
        wanted = TranslationOptions(target, source, text_format, glossary)
        translator = Translator(server, wanted)
        if files == ["-"]:
            if output or column or into:
                raise typer.BadParameter("`-` has no columns, and no -o: it is a text.")
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


@app.command()
def document(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Documents, folders with documents, or quoted patterns.",
        ),
    ],
    target: Target,
    source: SourceLanguage = None,
    output: TranslationOutput = None,
    glossary: Glossary = None,
    documents_at_once: Annotated[
        int, typer.Option(help="The most documents on the stack.", min=1, max=64)
    ] = 4,
    url: Url = DEFAULT_URL,
    key: Key = "",
    cacert: Cacert = "",
    attempts: Attempts = 10,
    timeout_s: TimeoutS = 120,
    overwrite: Overwrite = False,
) -> None:
    """Translate documents on the stack. To continue a run that was stopped, repeat the
    command."""
    with _connect(
        url, RetryPolicy(attempts, timeout_s), documents_at_once + 1, key, cacert=cacert
    ) as server:
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
            console.print(f"Stopped, the same command goes on ({job.plan.journal}).")
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
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


@contextmanager
def _connect(
    url: str, patience: RetryPolicy, connections: int, key: str, *, cacert: str
) -> Iterator[ApiClient]:
    """A client of the stack. Errors of the block are shown and end the command."""
    with (
        show_errors(ClientError),
        ApiClient(url, patience, connections, key, cacert=cacert) as server,
    ):
        yield server


if __name__ == "__main__":
    app()
