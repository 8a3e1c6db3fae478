"""Scenarios are checked, with the line of what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.driver import PlanError
from benchmarks.simulate.scenario import HOUR_S, TrafficEntry, change, read_scenario

ROOT = Path(__file__).parents[3]
SCENARIO = """\
traffic:
  requests_per_s: 10
replica:
  service: {ms: {1: 10, 8: 24}}
replicas: 4
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "scenario.yaml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmarks/scenarios/*.yaml")))
def test_a_scenario_that_ships_is_a_scenario(path: Path):
    scenario = read_scenario(path)
    assert scenario.tabulate()[-1] > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("requests_per_s: 10", "wave: 1"),
        ("requests_per_s: 10", "clients: 2\n  wave: 1"),
        ("{ms: {1: 10, 8: 24}}", "{}"),
        ("{ms: {1: 10, 8: 24}}", "{row_ms: 1}"),
        ("replicas: 4", "replicas: [4, 1]"),
        ("replicas: 4", "replicas: [1, 4]"),
        ("  requests_per_s: 10", "  clients: 10\nday: {}"),
    ],
)
def test_what_makes_no_sense_together_is_refused(tmp_path, old, new):
    with pytest.raises(PlanError):
        read_scenario(write(tmp_path, SCENARIO.replace(old, new)))


def test_a_number_of_languages_has_zipfs_shares():
    shares = TrafficEntry(requests_per_s=1, languages=3).find_shares()
    assert list(shares.values()) == pytest.approx([6 / 11, 3 / 11, 2 / 11])


def test_traffic_makes_a_wave_in_a_day():
    traffic = TrafficEntry(requests_per_s=100, wave=0.5, peak_hour=14)
    found = [traffic.find_rate(hour * HOUR_S) for hour in (14, 2, 20, 38)]
    assert found == pytest.approx([150, 50, 100, 150])


def test_a_table_has_straight_lines_between_its_sizes_and_beyond(tmp_path: Path):
    seconds = read_scenario(write(tmp_path, SCENARIO)).tabulate()
    found = [seconds[rows] for rows in (0, 1, 4, 8, 12)]
    assert found == pytest.approx([0, 0.01, 0.016, 0.024, 0.032])


def test_the_table_may_be_what_study_wrote_beside_the_scenario(tmp_path: Path):
    measured = [
        {"batch": batch, "ms_per_batch": {"median": ms}}
        for batch, ms in ((8, 24.0), (1, 10.0))
    ]
    content = {"results": {"measured": measured}}
    (tmp_path / "study.json").write_text(json.dumps(content), "utf-8")
    text = SCENARIO.replace("{ms: {1: 10, 8: 24}}", "{file: study.json}")
    scenario = read_scenario(write(tmp_path, text))
    assert scenario.replica.service.read_points() == [(1, 10.0), (8, 24.0)]


def test_values_can_be_changed(tmp_path: Path):
    scenario = read_scenario(write(tmp_path, SCENARIO))
    texts = ["traffic.languages=3", "replicas=[2, 9]", "day.moments=2"]
    changed = change(scenario, texts)
    assert len(changed.traffic.find_shares()) == 3
    assert changed.replicas == (2, 9)
    assert changed.day
    assert changed.day.moments == 2
    assert changed.replica == scenario.replica
    assert change(scenario, []) == scenario
