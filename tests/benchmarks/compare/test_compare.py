"""Comparisons in alternating rounds, with contenders that return fixed measurements."""

import json
from dataclasses import replace

import pytest

import catalog
from benchmarks.compare import comparison
from benchmarks.compare.comparison import Workload, choose, describe
from benchmarks.instruments.load import LoadFigures
from benchmarks.instruments.workload import draw
from benchmarks.report import Latencies, Spread


def load(rate: float, p99_ms: float | None = 100) -> LoadFigures:
    return LoadFigures(
        loop="closed",
        level=1,
        seconds=1,
        answers=10,
        requests_per_s=float(rate),
        errors=1,
        latencies=Latencies(*[p99_ms and float(p99_ms)] * 3),
        statuses={"200": 9, "503": 1},
        cpu_ms={"gateway": 2.0, "client": 9.0},
        memory_mb={"gateway": 100.0, "workers": 200.0},
    )


def test_each_number_of_clients_is_compared_without_the_cpu_of_the_client():
    cheap = replace(load(10), cpu_ms={"server": 1.0, "client": 99.0}, cold_start_s=1.5)
    ours = {"1": replace(load(20), cold_start_s=3.0), "64": load(90, 50)}
    found = describe({"ours": [ours], "theirs": [{"1": cheap, "64": load(30)}]})
    one, many = found.results["relations"]
    two = Spread(2, 2, 2)
    assert (one["case"], many["case"]) == ("1", "64")
    assert one["figures"]["requests/s"] == one["figures"]["CPU ms"] == two
    assert one["figures"]["cold start s"] == two
    assert many["figures"]["p99 ms"] == Spread(0.5, 0.5, 0.5)
    assert found.results["leads"] == []


def test_each_way_of_running_ours_is_compared_with_the_best_peer_of_each_round():
    # Requests/s and p99 of two rounds. Each peer leads in one; the engine alone is no peer.
    rounds: dict[str, list[tuple[float, float | None]]] = {
        "babelgate": [(20, 50), (30, 60)],
        "embedded": [(40, 25), (60, 30)],
        "litserve": [(40, 100), (10, 20)],
        "flask": [(10, 50), (20, None)],
        "engine": [(900, None), (900, None)],
    }
    found = describe(
        {way: [{"1": load(*one)} for one in some] for way, some in rounds.items()}
    )
    low, high = Spread(1, 0.5, 1.5), Spread(2, 1, 3)
    leads = [
        (lead["case"], lead["title"], figures["requests/s"], figures["p99 ms"])
        for lead in found.results["leads"]
        for figures in (lead["figures"],)
    ]
    assert leads == [
        ("1", "babelgate / best peer", low, high),
        ("1", "embedded / best peer", high, low),
    ]
    assert found.table[-1][:2] == ("1", "embedded / best peer")


@pytest.mark.parametrize("name", ["engine", "sentence"])
def test_the_engine_alone_takes_a_turn(tiny, tmp_path, monkeypatch, name):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    workload = Workload(tmp_path, tiny, draw(20), (1, 64), 0, 0)
    loads = choose([name])[name](name, workload)
    assert [measured.level for measured in loads.values()] == [1, 64]
    assert all(measured.requests_per_s > 0 for measured in loads.values())
    assert bool(loads["1"].latencies.p50_ms) == (name == "sentence")


def test_several_are_compared_with_ours_and_the_same_one_once():
    chosen = choose(["interactive", "flask", "interactive"])
    assert list(chosen) == ["babelgate", "interactive", "flask"]
    usual, interactive = (
        json.loads(path.read_text("utf-8"))["translation"]
        for path in (catalog.MAP, catalog.MAP.with_name("interactive.json"))
    )
    assert usual | comparison.INTERACTIVE == interactive


@pytest.mark.parametrize("names", [[], ["yesterday"], ["flask", "packing"]], ids=str)
def test_an_unknown_comparison_is_refused(names: list[str]):
    with pytest.raises(ValueError, match="expected some of baseline, interactive"):
        choose(names)
