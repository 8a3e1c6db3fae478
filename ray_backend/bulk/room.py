"""The workers of a run, and whether the machines of a cluster have room for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clients.errors import InputError
from ray_backend.dashboard import Machine
from ray_backend.deployment import describe_machine, describe_resources

#: What Ray takes of the accelerator of a machine for whoever wants that kind.
_TRACE = 0.001
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Pool:
    """The workers of a run, and what each takes."""

    size: int
    cpus: int
    gpus: float
    #: The kind of the GPU; None for any.
    accelerator: str | None = None

    @property
    def needs(self) -> Mapping[str, float]:
        """What a worker takes, in Ray's words."""
        kind = {f"accelerator_type:{self.accelerator}": _TRACE}
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        return needs | (kind if self.accelerator else {})


def fit(pool: Pool, machines: Sequence[Machine]) -> Pool:
    """The pool with no more workers than the machines could take if they did nothing else.
    Raises InputError if they could take none."""
    places = sum(_count_places(pool.needs, machine) for machine in machines)
    if places == 0:
        raise InputError(f"no machine can take a worker. {explain(pool, machines)}")
    return replace(pool, size=min(pool.size, places))


def explain(pool: Pool, machines: Sequence[Machine]) -> str:
    """What a worker takes, and what the machines have."""
    have = "; ".join(map(describe_machine, machines))
    return f"Each needs {describe_resources(pool.needs)}; {have}."


def _count_places(needs: Mapping[str, float], machine: Machine) -> int:
    return min(
        int(machine.resources_total.get(kind, 0) / amount + _ROUNDING)
        for kind, amount in needs.items()
        if amount
    )
