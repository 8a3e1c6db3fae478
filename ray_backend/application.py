"""The application that Ray Serve runs, as `config.py` configures it: replicas of one model."""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from ray import serve
from ray.serve import Application
from ray.util.metrics import Counter

from catalog import checkpoint
from handlers.base import ReloadableHandler, list_counters
from ray_backend.config import DEPLOYMENT, Arguments
from ray_backend.replica import Replica, load_handler

#: The variable for the number of threads that libraries compute with.
_THREADS = "OMP_NUM_THREADS"


def build(args: dict[str, Any]) -> Application:
    """Return the application of the model that `args` describe; Ray calls this. Raises
    ValidationError if they are from another version."""
    _ = Arguments.model_validate(args).model
    return serve.deployment(serve.ingress()(ReplicaServer), name=DEPLOYMENT).bind(args)


class ReplicaServer:
    """A replica as Ray runs it. Ray sends it no request before it is loaded."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._arguments = Arguments.model_validate(args)
        # Ray sets it to 1 for less than a whole core; the map's `threads` decides instead.
        if os.environ.get(_THREADS) == "1":
            del os.environ[_THREADS]

    async def __serve_build_asgi_app__(self) -> Replica:
        """Load the model, once. Raises LoadError, shown by Ray as the application's state."""
        start = partial(load_handler, self._arguments.model, checkpoint.default_cache())
        handler = await asyncio.to_thread(ReloadableHandler, start)
        counters = BatchCounters(self._arguments.name)
        self._replica = Replica(self._arguments, handler, counters.add)
        return self._replica

    async def check_health(self) -> None:
        """Raise Stuck if a batch hangs; Ray then replaces this replica."""
        self._replica.check_health()


class BatchCounters:
    """The counters that `torchserve_backend/metrics.yaml` declares, on Ray's metrics page."""

    def __init__(self, model: str) -> None:
        self._counters = {
            name: Counter(name, "See docs/operations.md.", ("ModelName",))
            for name in list_counters()
        }
        self._tags = {"ModelName": model}

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the counts of a batch. Undeclared ones are dropped, as TorchServe does; Ray's
        counters accept no zeros."""
        for name in counts.keys() & self._counters.keys():
            if counts[name] > 0:
                self._counters[name].inc(counts[name], self._tags)
