"""Two ways of working in turns, with contenders that only say what they measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from benchmarks import compare, contenders
from benchmarks.__main__ import app
from benchmarks.compare import Turns, alternate, read_range, read_settings, tabulate
from benchmarks.contenders import Contender, Workload, divide
from benchmarks.figures import Latencies, Spread
from benchmarks.load import Load
from benchmarks.options import Bar
from benchmarks.running import write_map
from benchmarks.sentences import draw
from torchserve_backend import catalog


def load(rate: float, p95_ms: float | None = 100, clients: int = 1) -> Load:
    return Load(
        loop="closed",
        level=clients,
        seconds=1,
        answers=10,
        requests_per_s=rate,
        errors=1,
        latencies=Latencies(p95_ms, p95_ms, p95_ms),
        statuses={"200": 9, "503": 1},
        cpu_ms={"gateway": 2.0, "client": 9.0},
        memory_mb={"gateway": 100, "workers": 200},
    )


def workload(folder: Path, model: Path = Path()) -> Workload:
    return Workload(
        folder=folder,
        model=model,
        sentences=draw(20),
        clients=(1, 64),
        seconds=0,
        warm_s=0,
    )


@pytest.fixture
def bar() -> Bar:
    return Bar(Progress(disable=True), 1)


def test_turns_alternate(tmp_path: Path, bar: Bar):
    taken: list[str] = []

    def make(name: str) -> Contender:
        def take_turn(_: Workload, bar: Bar) -> list[Load]:
            taken.append(name)
            return [load(len(taken))]

        return Contender(name, take_turn)

    ours, theirs = alternate((make("a"), make("b")), workload(tmp_path), 2, bar)
    assert taken == ["a", "b", "a", "b"]
    assert [loads[0].requests_per_s for loads in ours.rounds] == [1, 3]
    assert (theirs.name, len(theirs.rounds)) == ("b", 2)


def test_ratios_are_per_number_of_clients():
    ours = Turns("ours", [[load(20), load(90, 50, 64)], [load(10), load(60, 50, 64)]])
    theirs = Turns("theirs", [[load(10), load(30, 100, 64)]] * 2)
    one, many = compare.compare(ours, theirs)
    assert one.requests_per_s == Spread(1.5, 1, 2)
    assert one.p95_ms == Spread(1, 1, 1)
    assert (many.clients, many.requests_per_s) == (64, Spread(2.5, 2, 3))
    assert many.p95_ms == Spread(0.5, 0.5, 0.5)


def test_the_table_has_both_and_the_ratio():
    table = tabulate(Turns("ours", [[load(20)]]), Turns("theirs", [[load(10, None)]]))
    ours, theirs, ratio = table.rows
    assert ours == (
        *("1", "ours", "20.0 (20.0–20.0)", "100", "100", "100", "1", "2.00", "300"),
    )
    assert theirs[3:6] == ("–", "–", "–")
    assert ratio[:4] == ("1", "ratio", "2.00 (2.00–2.00)", "–")
    assert ratio[-1] == "1.00 (1.00–1.00)"


def test_a_range_is_two_numbers():
    assert read_range("3-200") == (3, 200)
    assert read_range("") is None


@pytest.mark.parametrize("text", ["3", "a-b", "9-3", "-3"])
def test_what_is_no_range_is_refused(text: str):
    with pytest.raises(ValueError, match="expected LEAST-MOST"):
        read_range(text)


def test_settings_are_words_and_numbers():
    assert read_settings(["placement=device", "max_batch_delay=5"]) == {
        "placement": "device",
        "max_batch_delay": 5,
    }
    with pytest.raises(ValueError, match="expected KEY=VALUE"):
        read_settings(["placement"])


def test_a_map_has_the_wanted_settings_and_languages(tmp_path: Path):
    path = write_map(tmp_path / "new/map.json", {"max_batch_tokens": 0}, ["fr", "ko"])
    written = catalog.load(path)
    assert set(written.languages) == {"fr", "ko"}
    assert {model.settings.max_batch_tokens for model in written.models} == {0}


def test_a_language_that_the_map_lacks_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="not in the map: xx"):
        write_map(tmp_path / "map.json", {}, ["fr", "xx"])


def test_the_engine_alone_takes_a_turn(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bar: Bar
):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    _, engine = contenders.pair("engine")
    loads = engine.take_turn(workload(tmp_path, tiny), bar)
    assert [measured.level for measured in loads] == [1, 64]
    assert all(measured.requests_per_s > 0 for measured in loads)


def test_sentences_are_divided_into_batches():
    assert [len(batch) for batch in divide(draw(10), 4)] == [4, 4, 2]


def test_an_unknown_comparison_is_refused():
    done = CliRunner().invoke(app, ["compare", "--against", "yesterday"])
    assert done.exit_code == 1
    assert "expected one of baseline, packing, placement, engine" in done.output


def test_every_comparison_is_written_to_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)

    def take_turn(work: Workload, bar: Bar) -> list[Load]:
        return [load(5, clients=clients) for clients in work.clients]

    pair = (Contender("a", take_turn), Contender("b", take_turn))
    monkeypatch.setattr(compare, "pair", lambda against: pair)
    options = ("--rounds", "2", "--clients", "1,2", "--set", "max_batch_delay=5")
    done = CliRunner().invoke(app, ["compare", "--against", "packing", *options])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "run/benchmark-compare-packing.json").read_text("utf-8")
    document = json.loads(text)
    assert document["options"]["settings"] == {"max_batch_delay": 5}
    assert [ratio["clients"] for ratio in document["results"]["ratios"]] == [1, 2]
