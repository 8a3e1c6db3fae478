"""Shows the counts of the batches that run in the gateway's process under the names and
the label that TorchServe's metrics page gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry, Gauge

_DECLARED = Path(__file__).parents[3] / "torchserve_backend" / "metrics.yaml"


class BatchCounters:
    """The counters that `torchserve_backend/metrics.yaml` declares. Gauges, because the
    client library's counters have names that end with `_total`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        declared = yaml.safe_load(_DECLARED.read_text("utf-8"))
        self._gauges = {
            counter["name"]: Gauge(
                counter["name"],
                "See docs/operations.md.",
                ["ModelName"],
                registry=registry,
                multiprocess_mode="sum",
            )
            for counter in declared["model_metrics"]["counter"]
        }

    def add(self, model: str, counts: Mapping[str, int]) -> None:
        """Adds what was counted in a batch of `model`; what is not declared is dropped, as
        TorchServe does. Safe to call from any thread."""
        for name in counts.keys() & self._gauges.keys():
            self._gauges[name].labels(model).inc(counts[name])
