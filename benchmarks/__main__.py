"""`python -m benchmarks`: measures on this machine what `docs/performance.md` reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import stack as stack_benchmark
from deploy import stack as stacks
from deploy.stack import ROOT

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
console = Console()


@app.callback()
def main() -> None:
    """Measure on this machine what docs/performance.md reports."""


Clients = Annotated[str, typer.Option(help="Numbers of clients, one loop each.")]
Seconds = Annotated[float, typer.Option(help="Length of each loop.")]
Target = Annotated[str, typer.Option(help="Translate into this language only.")]
RunDir = Annotated[Path, typer.Option(help="The running stack's directory.")]
Out = Annotated[Path, typer.Option(help="Where the figures go.")]


@app.command()
def stack(
    clients: Clients = "1,64,128",
    seconds: Seconds = 15,
    target: Target = "",
    run_dir: RunDir = ROOT / "run",
    out: Out = Path("run/benchmark-stack.json"),
) -> None:
    """Requests/s and latency of the running stack, and its memory."""
    running = stacks.read(run_dir.resolve())
    if running is None:
        console.print(
            "No stack has been started here; `make up` starts it.", style="red"
        )
        raise typer.Exit(1)
    numbers = [int(number) for number in clients.split(",")]
    bodies = stack_benchmark.draw_bodies(2000, target or None)
    measured = []
    with Progress(console=console) as progress:
        bar = progress.add_task("measuring", total=int(len(numbers) * seconds * 10))
        for number in numbers:
            measured.append(
                stack_benchmark.measure(
                    running.url,
                    bodies,
                    clients=number,
                    seconds=seconds,
                    tick=lambda: progress.advance(bar),
                )
            )
    table = Table("clients", "requests/s", "p50 ms", "p99 ms", "answers")
    for measurement in measured:
        table.add_row(*measurement.to_row())
    console.print(table)
    memory = stack_benchmark.measure_memory(running)
    console.print(
        "memory, MB:", ", ".join(f"{name} {mb:.0f}" for name, mb in memory.items())
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(stack_benchmark.to_json(measured))
    console.print(f"written: {out}")


if __name__ == "__main__":
    app()
