"""Reads the workers' counters from the metrics page of TorchServe or Ray, for a period of
time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.stack import ROOT

_PREFIX, _RAY_PREFIX = "Babelgate", "ray_"
_TIMEOUT_S = 10


_DECLARED = yaml.safe_load(
    (ROOT / "torchserve_backend/metrics.yaml").read_text("utf-8")
)
#: The declared counters without their prefix, by their names in small letters, which Ray
#: writes.
_NAMES = {
    each["name"].lower(): each["name"].removeprefix(_PREFIX)
    for each in _DECLARED["model_metrics"]["counter"]
}


@dataclass(frozen=True)
class WorkerFigures:
    """Figures of all workers together; None if no batch came."""

    batches: int = 0
    #: Rows of a batch.
    batch_fill: float | None = None
    #: From the gateway's sending of a row to its batch's start.
    queue_ms: float | None = None
    #: The duration of a batch in the handler.
    handler_ms: float | None = None
    padding_share: float | None = None
    tokens: int = 0


def read_counters(url: str) -> Counter[str]:
    """The handlers' counters, added up over the models. Raises RequestException."""
    page = requests.get(url, timeout=_TIMEOUT_S)
    page.raise_for_status()
    counters: Counter[str] = Counter()
    for family in text_string_to_metric_families(page.text):
        for sample in family.samples:
            name = sample.name.removeprefix(_RAY_PREFIX).removesuffix("_total")
            if declared := _NAMES.get(name.lower()):
                counters[declared] += round(sample.value)
    return counters


def describe(before: Mapping[str, int], after: Mapping[str, int]) -> WorkerFigures:
    """Describe the counts between two readings."""
    counted = Counter(after)
    counted.subtract(before)
    read = counted["Tokens"] + counted["PaddingTokens"]
    return WorkerFigures(
        batches=counted["Batches"],
        batch_fill=_divide(counted["Rows"], counted["Batches"]),
        queue_ms=_divide(counted["QueueMs"], counted["Rows"]),
        handler_ms=_divide(counted["ComputeMs"], counted["Batches"]),
        padding_share=_divide(counted["PaddingTokens"], read),
        tokens=counted["Tokens"],
    )


def _divide(dividend: int, divisor: int) -> float | None:
    return dividend / divisor if divisor else None
