"""The driver: what options mean, how turns are taken, and what is published."""

from __future__ import annotations

import inspect
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import driver, report
from benchmarks.__main__ import app
from benchmarks.report import Chart, FigureGoal, FigureTable, Findings, Spread
from deploy.stack import ROOT

TABLE = FigureTable(("clients", "requests/s"), (("1", "9.00"), ("64", "180")))


def run(answer: driver.Answer, folder: Path, *options: str, **question: Any):
    """Runs an answer as the command `stack`, whose options are explained."""
    shipped = driver.load_plan(driver.QUESTIONS, driver.QuestionList)
    entry = driver.QuestionEntry.model_validate({"answer": "", **question})
    questions = shipped.model_copy(update={"questions": {"stack": entry}})
    command_line = typer.Typer()
    driver.register(command_line, "stack", answer, questions)
    out = folder / "new" / "figures.json"
    return out, CliRunner().invoke(command_line, [*options, "--out", str(out)])


def test_findings_are_published_with_options_and_machine(tmp_path: Path):
    def answer(*, connections: int) -> Findings:
        values = (Spread(1, 0.5, 2), float("nan"), Path("a/b"), None, "텍스트")
        charts = [
            Chart("Throughput", "batch", "1/s", {"int8": [(1.0, 2.0), (2.0, 3.0)]})
        ]
        return Findings(TABLE, {connections: values}, charts=charts)

    plot = tmp_path / "figure.png"
    options = ("--connections", "3", "--plot", str(plot))
    out, done = run(answer, tmp_path, *options, has_charts=True)
    assert done.exit_code == 0, done.output
    document = json.loads(out.read_text("utf-8"))
    assert document["options"] == {"connections": 3}
    assert document["results"] == {
        "3": [{"median": 1, "low": 0.5, "high": 2}, None, "a/b", None, "텍스트"]
    }
    assert document["machine"]["cores"] >= 1
    assert out.with_suffix(".md").read_text("utf-8") == (
        "| clients | requests/s |\n|---|---|\n| 1 | 9.00 |\n| 64 | 180 |\n"
    )
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_an_option_has_the_default_and_the_bounds_of_its_question(tmp_path: Path):
    def answer(*, connections: int, run_dir: Path, target: str) -> Findings:
        return Findings(TABLE, (connections, run_dir, target))

    defaults = {"connections": 5, "run_dir": "run"}
    out, done = run(answer, tmp_path, "--target", "fr", defaults=defaults)
    assert done.exit_code == 0, done.output
    results = json.loads(out.read_text("utf-8"))["results"]
    assert results == [5, str(ROOT / "run"), "fr"]
    for options in ((), ("--target", "fr", "--connections", "0")):
        _, refused = run(answer, tmp_path, *options, defaults=defaults)
        assert refused.exit_code == 2


def test_parts_have_files_of_their_own_and_a_failed_one_fails_all(tmp_path: Path):
    def answer() -> Iterator[Findings]:
        yield Findings(TABLE, 1, part="ways")
        yield Findings(TABLE, 2, part="faults", has_failed=True)

    out, done = run(answer, tmp_path)
    assert done.exit_code == 1
    written = sorted(path.name for path in out.parent.glob("*.json"))
    assert written == ["figures-faults.json", "figures-ways.json"]


def test_without_matplotlib_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = CliRunner().invoke(app, ["stack", "--plot", str(tmp_path / "figure.png")])
    assert done.exit_code == 1
    assert "make .venv/ready-dev" in done.output


def test_every_command_explains_itself_and_every_option_is_used():
    listed = driver.load_plan(driver.QUESTIONS, driver.QuestionList)
    used = {"out", "plot"}
    for name, question in listed.questions.items():
        done = CliRunner().invoke(app, [name, "--help"])
        assert (done.exit_code, "--out" in done.output) == (0, True), name
        own = set(inspect.signature(resolve_name(question.answer)).parameters)
        assert question.defaults.keys() <= own
        used |= own | {f"{name}.{key}" for key in own}
    assert listed.options.keys() - used == set()


def test_a_stack_that_is_not_running_is_said(tmp_path: Path):
    done = CliRunner().invoke(app, ["stack", "--run-dir", str(tmp_path)])
    assert done.exit_code == 1
    assert "The stack is not running" in done.output


TURNS = {"ours": [(4.0, 1), (9.0, 2)], "theirs": [(2.0, 0), (3.0, 5)]}
FIGURES = {"rate": lambda turn: turn[0], "errors": lambda turn: turn[1]}


def test_ways_are_compared_round_by_round():
    goal = FigureGoal("rate", 3.0, is_least=True)
    found = report.compare_turns({"": TURNS}, FIGURES, goal=goal)
    assert found.table.headers == ("", "rate", "errors")
    assert found.table.rows == (
        ("ours", "6.50 (4.00–9.00)", "3"),
        ("theirs", "2.50 (2.00–3.00)", "5"),
        ("ours / theirs", "2.50 (2.00–3.00)", "–"),
    )
    assert found.remarks == ["ours / theirs, rate: 2.50 (2.00–3.00): below 3"]


def test_what_a_way_adds_is_found_in_each_case():
    missing = {"a": [(1.0, 0)], "b": [(None, 0)]}
    cases: dict[str, Any] = {"64": TURNS, "128": missing}
    found = report.compare_turns(cases, FIGURES, case="clients", is_added=True)
    assert found.table.headers == ("clients", "", "rate", "errors")
    assert [row[:3] for row in found.table.rows] == [
        ("64", "ours", "6.50 (4.00–9.00)"),
        ("64", "theirs", "2.50 (2.00–3.00)"),
        ("64", "theirs - ours", "-4.00 (-6.00–-2.00)"),
        ("128", "a", "1.00 (1.00–1.00)"),
        ("128", "b", "–"),
        ("128", "b - a", "–"),
    ]


def test_turns_are_taken_round_by_round():
    count = itertools.count()
    ways = {name: lambda number: (number, next(count)) for name in ("a", "b")}
    taken = driver.take_turns(ways, 2)
    assert taken == {"a": [(0, 0), (1, 2)], "b": [(0, 1), (1, 3)]}


def test_the_tables_of_the_page_are_those_of_the_figures():
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    figures = json.loads((ROOT / "docs/figures/performance.json").read_text("utf-8"))
    assert report.write_tables(page, figures) == page
    with pytest.raises(ValueError, match="in the section 'none'"):
        report.write_tables(page, {"none": [["a"]]})


def test_a_percentile_is_a_value_that_was_measured():
    values = range(100, 0, -1)
    for share, expected in ((0.0, 1), (0.5, 50), (0.95, 95), (0.951, 96), (1.0, 100)):
        assert report.percentile(values, share) == expected
    assert report.summarize_latencies([]) == report.Latencies(None, None, None)


def test_ratios_are_taken_in_rounds_that_have_both_figures():
    assert report.find_ratio([4, None, 9], [2, 5, 0]) == Spread(2, 2, 2)
    assert report.find_ratio([None], [1]) is None


def test_figures_are_shown_with_three_digits():
    values = (None, float("nan"), 9.994, 9.996, 99.96, 12345.6)
    shown = ["–", "–", "9.99", "10.0", "100", "12,346"]
    assert list(map(report.show, values)) == shown


#: A reader of an option, a right text, its value, wrong texts, and what it says to them.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "numbers": (driver.read_numbers, "1,64", [1, 64], ("", "0", "1,-2"), "from 1"),
    "rates": (driver.read_rates, "0.5,2", [0.5, 2], ("0", "-1", "inf"), "above 0"),
    "range": (driver.read_range, "3-20", (3, 20), ("3", "a-b", "9-3"), "LEAST-MOST"),
    "settings": (
        driver.read_settings,
        ["a=b", "c=5"],
        {"a": "b", "c": 5},
        ["a"],
        "KEY",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_checked(name: str):
    read, right, value, wrong, said = OPTIONS[name]
    assert read(right) == value
    for text in wrong:
        with pytest.raises(ValueError, match=said):
            read(text)
    assert (driver.read_rates(""), driver.read_range("")) == ([], None)
