"""The driver of benchmarks: options, rounds and published results."""

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from benchmarks import driver, report
from benchmarks.__main__ import app
from benchmarks.instruments.generator import LoadReply
from benchmarks.instruments.load import LoadFigures, summarize
from benchmarks.report import Chart, Findings, Spread
from deploy.stack import ROOT

TABLE = [["clients", "requests/s"], ["1", "9.00"], ["64", "180"]]


def run(answer: driver.Answer, folder: Path, *options: str, **defaults: Any):
    """Run an answer as the command `stack`, whose options have descriptions."""
    command_line = typer.Typer()
    driver.register(command_line, "stack", answer, defaults)
    out = folder / "new" / "figures.json"
    return out, CliRunner().invoke(command_line, [*options, "--out", str(out)])


def test_findings_are_published_with_options_and_machine(tmp_path: Path):
    def answer(*, rounds: int) -> Findings:
        values = (Spread(1, 0.5, 2), float("nan"), Path("a/b"), None, "텍스트")
        chart = Chart("Throughput", "batch", "1/s", {"int8": [(1.0, 2.0)]})
        return Findings(TABLE, {rounds: values}, charts=[chart])

    plot = tmp_path / "figure.png"
    options = ("--rounds", "3", "--plot", str(plot))
    out, done = run(answer, tmp_path, *options, plot=None)
    assert done.exit_code == 0, done.output
    document = json.loads(out.read_text("utf-8"))
    assert document["options"] == {"rounds": 3}
    assert document["results"] == {
        "3": [{"median": 1, "low": 0.5, "high": 2}, None, "a/b", None, "텍스트"]
    }
    assert document["machine"]["cores"] >= 1
    assert out.with_suffix(".md").read_text("utf-8") == (
        "| clients | requests/s |\n|---|---|\n"
        "| 1       | 9.00       |\n| 64      | 180        |\n"
    )
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_an_option_has_the_default_and_the_bounds_of_its_question(tmp_path: Path):
    def answer(*, rounds: int, run_dir: Path, language: str) -> Findings:
        return Findings(TABLE, (rounds, run_dir, language))

    defaults: dict[str, Any] = {"rounds": 5, "run_dir": "run"}
    out, done = run(answer, tmp_path, "--language", "fr", **defaults)
    assert done.exit_code == 0, done.output
    results = json.loads(out.read_text("utf-8"))["results"]
    assert results == [5, str(ROOT / "run"), "fr"]
    for options in ((), ("--language", "fr", "--rounds", "0")):
        _, refused = run(answer, tmp_path, *options, **defaults)
        assert refused.exit_code == 2


def test_every_command_explains_itself_and_every_option_is_used():
    listed = yaml.safe_load(driver.QUESTIONS.read_text("utf-8"))
    explained = yaml.safe_load(driver.OPTIONS.read_text("utf-8"))
    used = {"out", "plot"}
    for name, question in listed["questions"].items():
        done = CliRunner().invoke(app, [name, "--help"])
        assert (done.exit_code, "--out" in done.output) == (0, True), name
        own = set(inspect.signature(resolve_name(question["answer"])).parameters)
        assert question["defaults"].keys() - {"plot"} <= own
        used |= own | {f"{name}.{key}" for key in own}
    assert explained.keys() - used == set()


def test_a_stack_that_is_not_running_is_said(tmp_path: Path):
    done = CliRunner().invoke(app, ["stack", "--run-dir", str(tmp_path)])
    assert done.exit_code == 1
    assert "The stack is not running" in done.output


FIGURES = ("rate", "errors")

TURNS: dict[str, list[dict[str, Any]]] = {
    "ours": [{"rate": 4.0, "errors": 1}, {"rate": 9.0, "errors": 2}],
    "theirs": [{"rate": 2.0, "errors": 0}, {"rate": 3.0, "errors": 5}],
}


def test_ways_are_compared_round_by_round():
    found = report.compare_turns({"": TURNS}, FIGURES)
    assert tuple(found.table) == (
        ("", "rate", "errors"),
        ("ours", "6.50 (4.00–9.00)", "3"),
        ("theirs", "2.50 (2.00–3.00)", "5"),
        ("ours / theirs", "2.50 (2.00–3.00)", "–"),
    )


def test_what_a_way_adds_is_found_in_each_case():
    missing = {"a": [{"rate": 1.0, "errors": 0}], "b": [{"rate": None, "errors": 0}]}
    cases: dict[str, Any] = {"64": TURNS, "128": missing}
    found = report.compare_turns(cases, FIGURES, case="clients", is_added=True)
    assert found.table[0] == ("clients", "", "rate", "errors")
    assert [row[:3] for row in found.table[3:]] == [
        ("64", "theirs - ours", "-4.00 (-6.00–-2.00)"),
        ("128", "a", "1.00 (1.00–1.00)"),
        ("128", "b", "–"),
        ("128", "b - a", "–"),
    ]


def test_the_tables_of_the_page_are_those_of_the_figures():
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    figures = json.loads((ROOT / "docs/figures/performance.json").read_text("utf-8"))
    assert report.write_tables(page, figures) == page
    with pytest.raises(ValueError, match="in the section 'none'"):
        report.write_tables(page, {"none": [["a"]]})


def test_figures_are_found_and_shown():
    found = report.summarize_latencies([n / 1000 for n in range(100, 0, -1)])
    assert (found.p50_ms, found.p95_ms, found.p99_ms) == (50, 95, 99)
    assert report.summarize_latencies([]) == report.Latencies(None, None, None)
    assert report.find_ratio([4, None, 9], [2, 5, 0]) == Spread(2, 2, 2)
    assert report.find_ratio([None], [1]) is None
    shown = map(report.show, (None, float("nan"), 9.994, 9.996, 99.96, 12345.6))
    assert list(shown) == ["–", "–", "9.99", "10.0", "100", "12,346"]


@dataclass(frozen=True)
class Row:
    """A load on a machine."""

    label: str
    load: LoadFigures
    items_per_s: Spread
    lost: float | None = None


def test_the_fields_of_what_is_measured_are_the_columns():
    reply = LoadReply(0, "200", 1.0, 0.5, 0.1)
    load = summarize("open", 4.0, 2.0, [reply])
    items = [Row("cpu int8", load, Spread(2, 1, 3)), Row("gpu", load, Spread(1, 1, 1))]
    headers, *rows = report.tabulate(items)
    assert headers[:3] == ("label", "loop", "level")
    first, _ = (dict(zip(headers, row, strict=True)) for row in rows)
    assert first["label"] == "cpu int8"
    assert (first["requests/s"], first["200 statuses"]) == ("0.50", "1")
    assert (first["p50 ms"], first["items/s"]) == ("500", "2.00 (1.00–3.00)")
    assert "lost" not in first
    chart = report.plot(items, "requests/s", "items/s", line="label")
    assert chart.lines == {"cpu int8": [(0.5, 2)], "gpu": [(0.5, 1)]}


@pytest.mark.parametrize(
    ("read", "right", "value", "wrong", "said"),
    [
        (driver.read_numbers, "1,64", [1, 64], ("0", "1,-2"), "above 0"),
        (driver.read_numbers, "", [], ("x", "0.5"), "int"),
        (driver.read_range, "3-20", (3, 20), ("3", "a-b", "9-3"), "LEAST-MOST"),
        (driver.read_settings, ["a=b", "c=5"], {"a": "b", "c": 5}, (["a"],), "KEY"),
        (driver.read_settings, ["c=[5]"], {"c": [5]}, (["c=[5"],), "c=.5.: while"),
    ],
)
def test_options_are_checked(read: Any, right: Any, value: Any, wrong: Any, said: str):
    assert read(right) == value
    for text in wrong:
        with pytest.raises(ValueError, match=said):
            read(text)
