"""`python -m clients`: captions videos."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from clients.batches import Prebatch
from clients.bulk import Job, run_job
from clients.captioner import Mode, Sending
from clients.errors import ClientError, ServerError
from clients.frames import Every, Reading
from clients.outputs import plan_files
from clients.progress import show_progress
from clients.server import DEFAULT_URL, Patience, Server
from clients.subtitles import Format
from clients.videos import find_videos
from contract import variables

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
#: Captions go to files; what is said goes past a pipe.
console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


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
        Format | None,
        typer.Option(
            "--format", help="What to write; without it the suffix of -o says so."
        ),
    ] = None,
    url: Annotated[str, typer.Option(help="Where the stack is.")] = DEFAULT_URL,
    key: Annotated[
        str,
        typer.Option(
            envvar=variables.CLIENT_KEY.name,
            help="The stack's key, where it requires one. Other users of this machine see "
            "options, but not variables.",
        ),
    ] = "",
    every: Annotated[
        str,
        typer.Option(
            help="Take each N-th frame (10), or one each so often (1s, 0.5s)."
        ),
    ] = "1",
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
    full_size: Annotated[
        bool,
        typer.Option(
            "--full-size",
            help="Send frames as they are, not scaled to what the model takes.",
        ),
    ] = False,
    requests_in_flight: Annotated[
        int, typer.Option(help="The most requests under way.", min=1, max=256)
    ] = 8,
    attempts: Annotated[
        int, typer.Option(help="How often to send a request before giving up.", min=1)
    ] = 10,
    timeout_s: Annotated[
        float, typer.Option(help="Longest time for one attempt, in seconds.", min=0.1)
    ] = 120,
    decode_threads: Annotated[
        int, typer.Option(help="Threads that decode; 0 for one per core.", min=0)
    ] = 2,
    memory_limit_mb: Annotated[
        int, typer.Option(help="With --mode single: the most MiB of frames.", min=1)
    ] = 4096,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace files that are there, and an unfinished run with other options.",
        ),
    ] = False,
) -> None:
    """Caption videos. To continue a run that was stopped, repeat the command."""
    with (
        _errors(),
        Server(url, Patience(attempts, timeout_s), requests_in_flight, key) as server,
    ):
        found = find_videos(videos)
        job = Job(
            found,
            plan_files(found, output, kind),
            Reading(Every.parse(every), decode_threads=decode_threads),
            Sending(
                mode,
                Prebatch.parse(prebatch),
                requests_in_flight,
                memory_limit_mb << 20,
            ),
            is_full_size=full_size,
            is_overwrite=overwrite,
        )
        _run(job, server)


def _run(job: Job, server: Server) -> None:
    try:
        with show_progress(console) as report:
            outcome = run_job(job, server, report)
    except (KeyboardInterrupt, ServerError) as error:
        if job.plan.journal.exists():
            console.print(f"Stopped, the same command goes on ({job.plan.journal}).")
        if isinstance(error, ServerError):
            raise
        raise typer.Exit(130) from error
    for broken in outcome.errors:
        console.print(broken, style="red")
    if console.is_terminal:
        summary = outcome.summary
        console.print(f"{summary.frames} frames in {summary.seconds:.1f} s")
    if outcome.errors:
        raise typer.Exit(1)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        console.print(str(error), style="red")
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(130) from error


if __name__ == "__main__":
    app()
