"""`python -m benchmarks`: repeats the measurements of `docs/performance.md` on this machine."""

import json
import signal

try:
    import matplotlib  # noqa: F401

    from benchmarks.driver import make_app
    from benchmarks.report import write_tables
    from deploy.stack import ROOT

    app = make_app()
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: `make .venv/ready-dev` installs it.") from error


@app.callback()
def main() -> None:
    """Repeat the measurements of docs/performance.md on this machine."""
    # SIGTERM must stop the stacks of a benchmark as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@app.command()
def tables() -> None:
    """Write the tables of docs/performance.md from docs/figures/performance.json."""
    page, figures = ROOT / "docs/performance.md", ROOT / "docs/figures/performance.json"
    found = json.loads(figures.read_text("utf-8"))
    page.write_text(write_tables(page.read_text("utf-8"), found), "utf-8")


if __name__ == "__main__":
    app()
