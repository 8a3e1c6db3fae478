"""Loads the model that every peer serves, with the handler of our workers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.tasks import TRANSLATION
from handlers.base import TaskHandler, start_handler

HOST = "127.0.0.1"


@dataclass(frozen=True)
class PeerOptions:
    """A model and its batching: the only argument of a peer's server, as JSON."""

    port: int
    #: The most requests in a batch, and the longest wait for them.
    batch_size: int
    wait_s: float
    #: The handler's options, from the map.
    handler: Mapping[str, Any]


def read_options(argument: str | None = None) -> PeerOptions:
    """Return the options from an argument, or from the command line."""
    return PeerOptions(**json.loads(argument or sys.argv[1]))


def load_handler(options: PeerOptions) -> TaskHandler[Any]:
    """Load the handler with its model. It answers one batch at a time."""
    directory = Path(options.handler["model_path"])
    return start_handler(TRANSLATION, directory, None, options.handler)
