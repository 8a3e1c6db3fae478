"""How contenders compare: ratios of what they did, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.compare.contenders import OWN
from benchmarks.compare.peers.launch import PEERS
from benchmarks.figures import Spread, find_ratio
from benchmarks.instruments.load import Load, sum_cpu, sum_memory

#: What is compared, in the order of the columns.
FIGURES: Mapping[str, Callable[[Load], float | None]] = {
    "requests_per_s": lambda load: load.requests_per_s,
    "p50_ms": lambda load: load.latencies.p50_ms,
    "p95_ms": lambda load: load.latencies.p95_ms,
    "p99_ms": lambda load: load.latencies.p99_ms,
    "cpu_ms": sum_cpu,
    "memory_mb": sum_memory,
}


@dataclass(frozen=True)
class Turns:
    """What one contender did: a list of loads, one per number of clients, per round."""

    name: str
    rounds: Sequence[Sequence[Load]]
    #: From the start command to the first answer, per round.
    cold_starts_s: Sequence[float | None]

    @property
    def by_clients(self) -> list[tuple[Load, ...]]:
        """The rounds of each number of clients."""
        return list(zip(*self.rounds, strict=True))


@dataclass(frozen=True)
class Ratio:
    """Ours divided by theirs, round by round; None if one of them has no figure."""

    against: str
    clients: int
    figures: Mapping[str, Spread | None]


@dataclass(frozen=True)
class Lead:
    """Ours divided by each round's best peer; None if one of them has no figure."""

    ours: str
    clients: int
    #: Over the most requests/s of a peer.
    requests_per_s: Spread | None
    #: Over the smallest p99 of a peer, which can be another one.
    p99_ms: Spread | None


def compare(ours: Turns, theirs: Turns) -> list[Ratio]:
    """One ratio per number of clients."""
    cold_start_s = find_ratio(ours.cold_starts_s, theirs.cold_starts_s)
    return [
        Ratio(
            theirs.name,
            int(our[0].level),
            {
                **{
                    name: find_ratio([*map(read, our)], [*map(read, their)])
                    for name, read in FIGURES.items()
                },
                "cold_start_s": cold_start_s,
            },
        )
        for our, their in zip(ours.by_clients, theirs.by_clients, strict=True)
    ]


def find_leads(contenders: Sequence[Turns]) -> list[Lead]:
    """For each number of clients, a lead per way in which ours runs; none without peers.
    Only other serving systems count as peers."""
    peers = [turns for turns in contenders if turns.name in PEERS]
    own = [turns for turns in contenders if turns.name in OWN]
    if not peers:
        return []
    return [
        _find_lead(turns.name, turns.by_clients[index], rivals)
        for index, rivals in enumerate(zip(*(p.by_clients for p in peers), strict=True))
        for turns in own
    ]


def _find_lead(
    name: str, ours: Sequence[Load], rivals: Sequence[Sequence[Load]]
) -> Lead:
    """Ours and the peers have a load per round each, with the same number of clients."""
    rounds = list(zip(*rivals, strict=True))
    return Lead(
        name,
        int(ours[0].level),
        find_ratio(
            [load.requests_per_s for load in ours],
            [max(load.requests_per_s for load in loads) for loads in rounds],
        ),
        find_ratio([load.latencies.p99_ms for load in ours], [*map(_find_p99, rounds)]),
    )


def _find_p99(loads: Sequence[Load]) -> float | None:
    """The smallest one; None if no load has answers."""
    known = (load.latencies.p99_ms for load in loads)
    return min((p99_ms for p99_ms in known if p99_ms is not None), default=None)
