"""`python -m benchmarks`: measures on this machine what `docs/performance.md` reports."""

from __future__ import annotations

import signal

import typer

try:
    from benchmarks.compare import comparison
    from benchmarks.driver import Benchmark
    from benchmarks.measure import (
        batches,
        bulk,
        captioning,
        documents,
        gateway,
        hostile,
        ingress,
        microbatching,
        overload,
        page,
        soak,
        stack,
    )
    from benchmarks.simulate import command as simulate
    from benchmarks.tune import command as tune
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: `make .venv/ready-dev` installs it.") from error

BENCHMARKS = (
    Benchmark("engine", batches.measure_engines, has_charts=True),
    Benchmark("study", batches.study, has_charts=True),
    Benchmark("stack", stack.answer, has_charts=True),
    Benchmark("overload", overload.answer, has_charts=True),
    Benchmark("soak", soak.answer, has_charts=True),
    Benchmark("fairness", documents.measure_fairness),
    Benchmark("hostile", hostile.answer),
    Benchmark("dialects", gateway.compare_dialects),
    Benchmark("documents", documents.compare_with_lists),
    Benchmark("page", page.answer),
    Benchmark("compare", comparison.answer),
    Benchmark("simulate", simulate.answer),
    Benchmark("captioning", captioning.answer),
    Benchmark("microbatching", microbatching.answer),
    Benchmark("keys", gateway.compare_keys),
    Benchmark("bulk", bulk.answer),
    Benchmark("ingress", ingress.answer),
)
app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
app.command("tune")(tune.command)
for benchmark in BENCHMARKS:
    benchmark.register(app)


@app.callback()
def main() -> None:
    """Measure on this machine what docs/performance.md reports."""
    # SIGTERM ends a benchmark as Ctrl-C does: its stacks are stopped as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


if __name__ == "__main__":
    app()
