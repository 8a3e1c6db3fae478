"""Several ways of working in turns, with contenders that only say what they measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

import catalog
from benchmarks.__main__ import app
from benchmarks.compare import command, contenders
from benchmarks.compare.command import alternate, tabulate
from benchmarks.compare.contenders import (
    OURS,
    Contender,
    Turn,
    Workload,
    choose,
    divide,
)
from benchmarks.compare.ratios import Lead, Turns, compare, find_leads
from benchmarks.figures import Latencies, Spread
from benchmarks.instruments.load import Load
from benchmarks.instruments.running import write_map
from benchmarks.instruments.sentences import draw
from benchmarks.options import Bar, read_range, read_settings


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


@pytest.mark.slow
def test_turns_alternate(tmp_path: Path, bar: Bar):
    taken: list[str] = []

    def make(name: str) -> Contender:
        def take_turn(_: Workload, bar: Bar) -> Turn:
            taken.append(name)
            return Turn([load(len(taken))], cold_start_s=len(taken))

        return Contender(name, take_turn)

    contenders_ = [make("a"), make("b"), make("c")]
    ours, *others = alternate(contenders_, workload(tmp_path), 2, bar)
    assert taken == ["a", "b", "c", "a", "b", "c"]
    assert [loads[0].requests_per_s for loads in ours.rounds] == [1, 4]
    assert ours.cold_starts_s == [1, 4]
    assert [(their.name, len(their.rounds)) for their in others] == [("b", 2), ("c", 2)]


def test_ratios_are_per_number_of_clients():
    rounds = [[load(20), load(90, 50, 64)], [load(10), load(60, 50, 64)]]
    ours = Turns("ours", rounds, [None, None])
    theirs = Turns("theirs", [[load(10), load(30, 100, 64)]] * 2, [None, None])
    one, many = compare(ours, theirs)
    assert (one.against, one.clients, many.clients) == ("theirs", 1, 64)
    assert one.figures["requests_per_s"] == Spread(1.5, 1, 2)
    assert one.figures["p95_ms"] == Spread(1, 1, 1)
    assert many.figures["requests_per_s"] == Spread(2.5, 2, 3)
    assert many.figures["p95_ms"] == many.figures["p99_ms"] == Spread(0.5, 0.5, 0.5)


def test_what_a_request_costs_is_compared_without_the_client_that_asks():
    ours = Turns("ours", [[load(20)]], [3.0])
    cheap = replace(load(20), cpu_ms={"server": 1.0, "client": 99.0})
    (ratio,) = compare(ours, Turns("theirs", [[cheap]], [1.5]))
    figures = ratio.figures
    assert figures["cpu_ms"] == figures["cold_start_s"] == Spread(2, 2, 2)


def test_the_table_has_every_contender_and_how_ours_compares_with_it():
    slow = Turns("slow", [[load(10, None), load(5, None, 64)]], [None])
    quick = Turns("quick", [[load(40), load(80, 25, 64)]], [4.0])
    table = tabulate(
        Turns("ours", [[load(20), load(20, 50, 64)]], [2.0]), [slow, quick]
    )
    assert [row[:2] for row in table.rows] == [
        (clients, name)
        for clients in ("1", "64")
        for name in ("ours", "slow", "ratio", "quick", "ratio")
    ]
    ours, theirs, ratio = table.rows[:3]
    assert ours == (
        *("1", "ours", "20.0 (20.0–20.0)", "100", "100", "100", "1", "2.00", "300"),
        "2.00",
    )
    assert theirs[3:6] == ("–", "–", "–")
    assert ratio[:4] == ("1", "ratio", "2.00 (2.00–2.00)", "–")
    assert ratio[-2:] == ("1.00 (1.00–1.00)", "–")
    assert table.rows[-1][2:6] == ("0.25 (0.25–0.25)", *["2.00 (2.00–2.00)"] * 3)
    assert table.rows[-1][-1] == "0.50 (0.50–0.50)"


def measured(name: str, *rounds: tuple[float, float | None]) -> Turns:
    """A round's requests/s, and its p99 in milliseconds."""
    return Turns(name, [[load(*figures)] for figures in rounds], [None] * len(rounds))


CONTENDERS = [
    measured("babelgate", (20, 50), (30, 60)),
    measured("embedded", (40, 25), (60, 30)),
    # Each leads in another round, and neither the quicker nor the engine alone is a peer.
    measured("litserve", (40, 100), (10, 20)),
    measured("flask", (10, 50), (20, None)),
    measured("engine", (900, None), (900, None)),
]


def test_each_way_of_running_ours_is_compared_with_the_best_peer_of_each_round():
    assert find_leads(CONTENDERS) == [
        Lead("babelgate", 1, Spread(1.0, 0.5, 1.5), Spread(2.0, 1.0, 3.0)),
        Lead("embedded", 1, Spread(2.0, 1.0, 3.0), Spread(1.0, 0.5, 1.5)),
    ]


def test_without_peers_there_is_no_best_one():
    assert find_leads([CONTENDERS[0], CONTENDERS[-1]]) == []


def test_a_peer_without_answers_has_no_p99():
    own, peer = measured("babelgate", (20, 50)), measured("flask", (10, None))
    (lead,) = find_leads([own, peer])
    assert (lead.requests_per_s, lead.p99_ms) == (Spread(2, 2, 2), None)


def test_the_table_ends_with_ours_over_the_best_peer():
    ours, *others = CONTENDERS
    *_, stack, embedded = tabulate(ours, others).rows
    assert stack == (
        *("1", "babelgate / best peer", "1.00 (0.50–1.50)", "–", "–"),
        *("2.00 (1.00–3.00)", "–", "–", "–", "–"),
    )
    assert embedded[1] == "embedded / best peer"


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
    assert written.translation.max_batch_tokens == 0


def test_a_language_that_the_map_lacks_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="not in the map: xx"):
        write_map(tmp_path / "map.json", {}, ["fr", "xx"])


def test_the_engine_alone_takes_a_turn(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bar: Bar
):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    _, engine = choose(["engine"])
    turn = engine.take_turn(workload(tmp_path, tiny), bar)
    assert [measured.level for measured in turn.loads] == [1, 64]
    assert all(measured.requests_per_s > 0 for measured in turn.loads)
    assert turn.cold_start_s is None


def test_one_sentence_at_a_time_has_latencies(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bar: Bar
):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    _, sentence = choose(["sentence"])
    turn = sentence.take_turn(workload(tmp_path, tiny), bar)
    assert turn.loads[0].answers == 1
    assert turn.loads[0].latencies.p50_ms == turn.loads[0].latencies.p99_ms
    assert turn.loads[0].latencies.p50_ms


def test_the_model_is_converted_and_packages_are_installed_before_the_first_turn(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bar: Bar
):
    monkeypatch.setenv("BABELGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    installed: list[str] = []

    def take_turn(_: Workload, bar: Bar) -> Turn:
        raise AssertionError("this is no turn")

    peer = Contender("peer", take_turn, lambda: installed.append("peer"))
    contenders.prepare([peer], workload(tmp_path / "run", tiny), bar)
    assert installed == ["peer"]
    assert list((tmp_path / "cache/ctranslate2").glob("*/int8/model.bin"))


def test_sentences_are_divided_into_batches():
    assert [len(batch) for batch in divide(draw(10), 4)] == [4, 4, 2]


def test_an_unknown_comparison_is_refused():
    done = CliRunner().invoke(app, ["compare", "--against", "yesterday"])
    assert done.exit_code == 1
    assert "'yesterday': expected some of baseline, interactive" in done.output


def test_several_are_compared_with_ours_and_the_same_one_once():
    chosen = choose(["interactive", "flask", "interactive"])
    assert chosen[0] is OURS
    assert [contender.name for contender in chosen[1:]] == ["interactive", "flask"]


def test_a_map_that_ships_gives_only_what_it_changes():
    changes = {"max_batch_delay": 2, "placement": "device"}
    assert contenders._read_differences("interactive.json") == changes


@pytest.mark.parametrize("name", ["packing", "placement"])
def test_what_is_not_compared_with_our_stack_is_compared_alone(name: str):
    ours, _ = choose([name])
    assert ours is not OURS
    with pytest.raises(ValueError, match=f"{ours.name}, not with babelgate: .* alone"):
        choose(["flask", name])


def test_every_comparison_is_written_to_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)

    def take_turn(work: Workload, bar: Bar) -> Turn:
        return Turn([load(5, clients=clients) for clients in work.clients], 1.0)

    pair = (Contender("babelgate", take_turn), Contender("flask", take_turn))
    monkeypatch.setattr(command, "choose", lambda names: pair)
    monkeypatch.setattr(command, "prepare", lambda *_: None)
    options = ("--rounds", "2", "--clients", "1,2", "--set", "max_batch_delay=5")
    done = CliRunner().invoke(
        app, ["compare", "--against", "interactive,flask", *options]
    )
    assert done.exit_code == 0, done.output
    text = (tmp_path / "run/benchmark-compare-interactive-flask.json").read_text(
        "utf-8"
    )
    document = json.loads(text)
    assert document["options"]["settings"] == {"max_batch_delay": 5}
    results = document["results"]
    assert [ratio["clients"] for ratio in results["ratios"]] == [1, 2]
    assert [lead["clients"] for lead in results["leads"]] == [1, 2]
