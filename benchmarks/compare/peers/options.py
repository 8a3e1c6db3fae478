"""The options of a peer's server, as a command line. It needs nothing but Python."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_type_hints


@dataclass(frozen=True)
class Options:
    """A model, how it is run and how its requests become batches."""

    #: The directory that the engine loads.
    model: Path
    host: str
    port: int
    #: The most requests in a batch, and how long it waits for them.
    batch_size: int
    wait_ms: int
    engine: str = "ctranslate2"
    compute_type: str = "int8"
    #: The most tokens that are translated at once, as in our map.
    max_batch_tokens: int = 4096

    @property
    def wait_s(self) -> float:
        return self.wait_ms / 1000


def write_options(options: Options) -> list[str]:
    """The arguments that `read_options` reads."""
    pairs = asdict(options).items()
    return [part for name, value in pairs for part in (_flag(name), str(value))]


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line. Ends the program where an option is unknown or missing."""
    parser = argparse.ArgumentParser()
    for name, kind in get_type_hints(Options).items():
        default = getattr(Options, name, None)
        parser.add_argument(
            _flag(name), type=kind, default=default, required=default is None
        )
    return Options(**vars(parser.parse_args(arguments)))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
