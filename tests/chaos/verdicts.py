"""The invariants: what requests got in, what must not have happened out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

from benchmarks.instruments.generator import GRACE_S
from deploy.stack import ROOT
from tests.chaos.load import BROKEN, CUT, HUNG, PROBLEM, WRONG, Exchange
from tests.chaos.scene import Scene, Window

#: A connection that was accepted just before or after may break as well.
_SLACK_S = 0.5
#: The statuses that a well-formed request may get in place of its answer.
_TEMPORARY = {429, 503, 504}
#: Requests that have no right answer of their own.
_NO_REQUEST = ("junk", "text")
#: How much memory may grow: a share, and what a flood leaves in the allocators of each of
#: four processes. Java fills its heap before it tidies up, so its size depends on when one
#: looks.
GROWTH, SLACK_MB, JAVA_SLACK_MB = 0.05, 50.0, 50.0
_JAVA = "torchserve"


@cache
def read_problems() -> set[tuple[str, int]]:
    """Slug and status of every problem that docs/api.md lists."""
    text = (ROOT / "docs/api.md").read_text("utf-8")
    found = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \|", text, re.MULTILINE)
    return {(slug, int(status)) for slug, status in found}


def find_fault(exchange: Exchange, scene: Scene) -> str:
    """Describe the fault of an answer; empty where there is none."""
    is_shut = any(_touches(window, exchange) for window in scene.shut)
    late_s = exchange.lasted_s - exchange.limit_s - GRACE_S
    if late_s > 0:
        late_s -= sum(window.overlap(exchange) for window in scene.frozen)
    is_cut = exchange.detail == CUT and any(
        _touches(window, exchange) for window in scene.cut
    )
    if exchange.outcome == BROKEN and not (is_shut or is_cut):
        return f"connection {exchange.detail}"
    if exchange.outcome == WRONG:
        return f"wrong answer, status {exchange.status} {exchange.detail}".rstrip()
    if (exchange.outcome == HUNG or late_s > 0) and not is_shut:
        return "no answer in time"
    if exchange.outcome == PROBLEM:
        return _find_unfit_problem(exchange)
    return ""


def list_faults(scene: Scene) -> list[str]:
    """Every fault, and how often each kind of request had it."""
    found = Counter(
        f"{exchange.kind}: {fault}"
        for exchange in scene.exchanges
        if (fault := find_fault(exchange, scene))
    )
    return [f"{count} x {fault}" for fault, count in found.most_common()]


def has_grown(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether Java, or all other programs together, have too many more megabytes."""
    java = (before.get(_JAVA, 0.0), after.get(_JAVA, 0.0))
    others = (sum(before.values()) - java[0], sum(after.values()) - java[1])
    return _is_more(*java, JAVA_SLACK_MB) or _is_more(*others, SLACK_MB)


def _is_more(before: float, after: float, slack_mb: float) -> bool:
    return after > before * (1 + GROWTH) + slack_mb


def _touches(window: Window, exchange: Exchange) -> bool:
    return (
        exchange.began <= window.ended + _SLACK_S
        and exchange.ended >= window.began - _SLACK_S
    )


def _find_unfit_problem(exchange: Exchange) -> str:
    shown = f"{exchange.status} {exchange.slug}".strip()
    if exchange.slug and (exchange.slug, exchange.status) not in read_problems():
        return f"{shown} is not documented"
    is_request = not exchange.kind.startswith(_NO_REQUEST)
    if exchange.status == 500 or (is_request and exchange.status not in _TEMPORARY):
        return f"{shown} is no answer to this"
    return ""
