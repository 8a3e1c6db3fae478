"""The worth of kept sentences: `python -m benchmarks cache` asks gateways and whole stacks with
and without them, in turns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import accumulate, count
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import report
from benchmarks.driver import compare, take_turns
from benchmarks.instruments import load, running
from benchmarks.instruments.generator import Request
from benchmarks.instruments.load import LoadFigures
from benchmarks.instruments.running import CACHE_OFF, CACHE_ON
from benchmarks.instruments.workload import draw, write_request
from benchmarks.measure import gateway

_LANGUAGE = "fr"
#: The sentences that all others are made from, and requests that no load gets through.
_SENTENCES, _REQUESTS = 500, 60_000
_WARM_S, _WARM_CLIENTS = 3.0, 64
_COLUMNS = ("requests/s", "p50 ms", "p95 ms", "errors", gateway.CPU_MS)


def answer(
    *, clients: int, seconds: float, rounds: int, distinct: int, model: Path
) -> Iterator[report.Findings]:
    """The gateway's CPU before a backend that answers at once; then a whole stack's requests
    per second: sentences as often as Zipf's law has them, all different, and one for a single
    client."""
    yield replace(_compare_gateways(clients, seconds, rounds), part="gateway")
    loads = {
        "Zipf": (_write(_draw_by_zipf(distinct), "zipf"), clients),
        "all different": (_write_new(0), clients),
        "one, one client": (_write([0], "one"), 1),
    }
    ask = partial(_ask_stack, loads, seconds=seconds, model=model)
    ways = {"kept": partial(ask, CACHE_ON), "not kept": partial(ask, CACHE_OFF)}
    turns = take_turns(ways, rounds)
    cases = {
        case: {way: [turn[case] for turn in done] for way, done in turns.items()}
        for case in turns["kept"][0]
    }
    yield report.compare_turns(cases, _COLUMNS, case="sentences")


def _compare_gateways(clients: int, seconds: float, rounds: int) -> report.Findings:
    with TemporaryDirectory() as name, ExitStack() as gateways:
        start = partial(gateway.start, more=CACHE_ON)
        kept = gateways.enter_context(start(Path(name) / "on"))
        plain = gateways.enter_context(gateway.start(Path(name) / "off", CACHE_OFF))
        ask = partial(load.measure_closed, clients=clients, seconds=seconds)
        turns = count()
        same = kept.aim(_write(range(_SENTENCES), "same"))
        load.measure_closed(same, clients=clients, seconds=_WARM_S)
        ways = {
            "not kept": lambda: ask(plain.aim(_write_new(next(turns)))),
            "all different": lambda: ask(kept.aim(_write_new(next(turns)))),
            "all kept": lambda: ask(same),
        }
        return compare(ways, rounds, _COLUMNS)


def _ask_stack(
    loads: Mapping[str, tuple[Sequence[Request], int]],
    cache: Mapping[str, str],
    *,
    seconds: float,
    model: Path,
) -> dict[str, LoadFigures]:
    with TemporaryDirectory() as name:
        run = Path(name) / "run"
        path = running.write_map(Path(name) / "map.json", {}, [_LANGUAGE])
        with running.start(run, path, model, cache) as stack:
            warm = stack.aim(_write_new(1))
            load.measure_closed(warm, clients=_WARM_CLIENTS, seconds=_WARM_S)
            return {
                case: load.measure_closed(
                    stack.aim(requests), clients=asking, seconds=seconds
                )
                for case, (requests, asking) in loads.items()
            }


def _draw_by_zipf(distinct: int) -> list[int]:
    """Numbers of sentences, of which the second is half as frequent as the first, and so on."""
    weights = list(accumulate(1 / rank for rank in range(1, distinct + 1)))
    return random.Random(0).choices(range(distinct), cum_weights=weights, k=_REQUESTS)


def _write_new(turn: int) -> list[Request]:
    """Requests whose sentences no other turn has."""
    return _write(range(_REQUESTS), f"turn {turn}")


def _write(numbers: Sequence[int], mark: str) -> list[Request]:
    """Requests for sentences of these numbers."""
    sentences = draw(_SENTENCES, (_LANGUAGE,))
    texts = (
        replace(one, text=f"{one.text} ({mark}, {number})")
        for number in numbers
        for one in (sentences[number % len(sentences)],)
    )
    return list(map(write_request, texts))
