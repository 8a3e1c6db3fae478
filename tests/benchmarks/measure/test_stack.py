"""What the benchmark of a running stack makes of its loads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import plots
from benchmarks.__main__ import app
from benchmarks.instruments.generator import Reply
from benchmarks.instruments.load import summarize
from benchmarks.measure.stack import chart, read_rates, tabulate
from benchmarks.options import read_numbers
from benchmarks.plots import Chart

CLOSED = summarize(
    "closed", 64, 1.0, [Reply(0, "200", 1, 0.25, 0), Reply(1, "503", 1, 0.1, 0)]
)
OPEN = summarize("open", 20, 1.0, [Reply(0, "200", 1, 0.5, lag_s=0.01)])


def test_a_load_is_a_row():
    closed, opened = tabulate([CLOSED, OPEN]).rows
    assert closed == ("closed", "64", "1.00", "250", "250", "250", "1", "–")
    assert opened == ("open", "20", "1.00", "500", "500", "500", "0", "10.0")


def test_closed_and_open_loops_have_charts_of_their_own():
    closed, opened = chart([CLOSED, OPEN])
    assert closed.title == "Closed loop"
    assert closed.lines == {name: [(1.0, 250.0)] for name in ("p50", "p95", "p99")}
    assert opened.lines["p99"] == [(1.0, 500.0)]


def test_a_stack_that_is_not_running_is_said(tmp_path: Path):
    for command in ("stack", "fairness", "documents"):
        done = CliRunner().invoke(app, [command, "--run-dir", str(tmp_path)])
        assert done.exit_code == 1
        assert "The stack is not running" in done.output


@pytest.mark.parametrize("text", ["", "0", "1,-2"])
def test_numbers_of_clients_are_checked(text: str):
    with pytest.raises(ValueError, match="expected whole numbers from 1"):
        read_numbers(text)


def test_rates_are_checked():
    assert read_rates("0.5,20") == [0.5, 20]
    assert read_rates("") == []
    for text in ("0", "-1", "inf", "nan"):
        with pytest.raises(ValueError, match="above 0"):
            read_rates(text)


def test_every_command_is_listed_and_explains_itself():
    listed = CliRunner().invoke(app, ["--help"]).output
    assert all(str(command.name) in listed for command in app.registered_commands)
    assert "--out" in CliRunner().invoke(app, ["stack", "--help"]).output


def test_a_picture_is_drawn(tmp_path: Path):
    lines = {"int8": [(1.0, 2.0), (2.0, 3.0)]}
    path = tmp_path / "new" / "figure.png"
    plots.draw([Chart("Throughput", "batch", "sentences/s", lines)], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_nothing_is_measured_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = CliRunner().invoke(app, ["stack", "--plot", str(tmp_path / "figure.png")])
    assert done.exit_code == 1
    assert "make .venv/ready-dev" in done.output
