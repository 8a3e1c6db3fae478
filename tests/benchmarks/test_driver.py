"""The driver: what options mean, how turns are taken, and what is published."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import driver, report
from benchmarks.__main__ import BENCHMARKS, app
from benchmarks.figures import Spread
from benchmarks.report import Chart, FigureTable, tabulate

TABLE = FigureTable(("clients", "requests/s"), (("1", "9.00"), ("64", "180")))


def run(benchmark: driver.Benchmark, folder: Path, *options: str):
    command_line = typer.Typer()
    benchmark.register(command_line)
    out = folder / "new" / "figures.json"
    return out, CliRunner().invoke(command_line, [*options, "--out", str(out)])


def test_findings_are_published_with_options_and_machine(tmp_path: Path):
    def answer(*, clients: int = 2) -> driver.Findings:
        values = (Spread(1, 0.5, 2), float("nan"), Path("a/b"), None, "텍스트")
        charts = [
            Chart("Throughput", "batch", "1/s", {"int8": [(1.0, 2.0), (2.0, 3.0)]})
        ]
        return driver.Findings(TABLE, {clients: values}, charts=charts)

    plot = tmp_path / "figure.png"
    options = ("--clients", "3", "--plot", str(plot))
    out, done = run(driver.Benchmark("q", answer, has_charts=True), tmp_path, *options)
    assert done.exit_code == 0, done.output
    document = json.loads(out.read_text("utf-8"))
    assert document["options"] == {"clients": 3}
    assert document["results"] == {
        "3": [{"median": 1, "low": 0.5, "high": 2}, None, "a/b", None, "텍스트"]
    }
    assert document["machine"]["cores"] >= 1
    assert out.with_suffix(".md").read_text("utf-8") == (
        "| clients | requests/s |\n| --- | --- |\n| 1 | 9.00 |\n| 64 | 180 |\n"
    )
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_parts_have_files_of_their_own_and_a_failed_one_fails_the_command(
    tmp_path: Path,
):
    def answer():
        yield driver.Findings(TABLE, 1, part="ways")
        yield driver.Findings(TABLE, 2, part="faults", has_failed=True)

    out, done = run(driver.Benchmark("q", answer), tmp_path)
    assert done.exit_code == 1
    written = {path.name for path in out.parent.glob("*.json")}
    assert written == {"figures-ways.json", "figures-faults.json"}


def test_an_error_is_said_without_a_traceback(tmp_path: Path):
    def answer() -> driver.Findings:
        raise ValueError("expected a stack")

    _, done = run(driver.Benchmark("q", answer), tmp_path)
    assert (done.exit_code, done.output) == (1, "expected a stack\n")


def test_without_matplotlib_nothing_is_measured_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = CliRunner().invoke(app, ["stack", "--plot", str(tmp_path / "figure.png")])
    assert done.exit_code == 1
    assert "make .venv/ready-dev" in done.output


@pytest.mark.parametrize("name", [benchmark.name for benchmark in BENCHMARKS])
def test_every_command_explains_itself(name: str):
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0
    assert "--out" in done.output


@pytest.mark.parametrize("command", ["stack", "fairness", "documents", "captioning"])
def test_a_stack_that_is_not_running_is_said(tmp_path: Path, command: str):
    done = CliRunner().invoke(app, [command, "--run-dir", str(tmp_path)])
    assert done.exit_code == 1
    assert "The stack is not running" in done.output


def test_turns_are_taken_round_by_round():
    taken: list[tuple[str, int]] = []

    def take(name: str, number: int) -> int:
        taken.append((name, number))
        return len(taken)

    ways = {name: partial(take, name) for name in ("a", "b")}
    assert driver.take_turns(ways, 2) == {"a": [1, 3], "b": [2, 4]}
    assert taken == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_cells_are_texts_as_they_are_and_numbers_with_three_digits():
    columns = {"x": lambda x: x, "y": lambda x: x and str(x)}
    rows = tabulate([1, 2.5, None, Spread(2, 1, 3)], columns).rows
    assert [row[0] for row in rows] == ["1", "2.50", "–", "2.00 (1.00–3.00)"]
    assert report.to_markdown(FigureTable(("a",), ())) == "| a |\n| --- |\n"


@pytest.mark.parametrize("text", ["", "0", "1,-2"])
def test_numbers_are_checked(text: str):
    with pytest.raises(ValueError, match="expected whole numbers from 1"):
        driver.read_numbers(text)


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan"])
def test_rates_are_checked(text: str):
    assert driver.read_rates("0.5,20") == [0.5, 20]
    assert driver.read_rates("") == []
    with pytest.raises(ValueError, match="above 0"):
        driver.read_rates(text)


@pytest.mark.parametrize("text", ["3", "a-b", "9-3", "-3"])
def test_a_range_is_two_numbers(text: str):
    assert driver.read_range("3-200") == (3, 200)
    assert driver.read_range("") is None
    with pytest.raises(ValueError, match="expected LEAST-MOST"):
        driver.read_range(text)


def test_settings_are_words_and_numbers():
    assert driver.read_settings(["placement=device", "max_batch_delay=5"]) == {
        "placement": "device",
        "max_batch_delay": 5,
    }
    with pytest.raises(ValueError, match="expected KEY=VALUE"):
        driver.read_settings(["placement"])
