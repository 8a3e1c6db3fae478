"""`python -m benchmarks`: measures on this machine what `docs/performance.md` reports."""

from __future__ import annotations

import json
import signal

try:
    from benchmarks.compare import comparison
    from benchmarks.driver import Answer, make_app
    from benchmarks.measure import (
        batches,
        captioning,
        gateway,
        hostile,
        ingress,
        overload,
        page,
        soak,
        stack,
    )
    from benchmarks.report import write_tables
    from benchmarks.simulate import command as simulate
    from benchmarks.tune import search as tune
    from deploy.stack import ROOT
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: `make .venv/ready-dev` installs it.") from error

ANSWERS: dict[str, Answer] = {
    "engine": batches.measure_engines,
    "study": batches.study,
    "stack": stack.answer,
    "overload": overload.answer,
    "soak": soak.answer,
    "fairness": stack.measure_fairness,
    "hostile": hostile.answer,
    "dialects": gateway.compare_dialects,
    "profile": gateway.profile,
    "documents": stack.compare_with_lists,
    "page": page.answer,
    "compare": comparison.answer,
    "simulate": simulate.answer,
    "captioning": captioning.answer,
    "microbatching": gateway.compare_batching,
    "keys": gateway.compare_keys,
    "bulk": batches.measure_bulk,
    "ingress": ingress.answer,
    "tune": tune.answer,
}
DOCS = ROOT / "docs"
app = make_app(ANSWERS, "Measure on this machine what docs/performance.md reports.")


@app.callback()
def main() -> None:
    """Measure on this machine what docs/performance.md reports."""
    # SIGTERM must stop the stacks of a benchmark as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@app.command()
def tables() -> None:
    """Write the tables of docs/performance.md from docs/figures/performance.json."""
    figures = json.loads((DOCS / "figures/performance.json").read_text("utf-8"))
    page = (DOCS / "performance.md").read_text("utf-8")
    (DOCS / "performance.md").write_text(write_tables(page, figures), "utf-8")


if __name__ == "__main__":
    app()
