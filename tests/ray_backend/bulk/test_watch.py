"""When a run says what it waits for, and when it waits no longer."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from deploy.stack import ROOT
from ray_backend.bulk.room import Pool
from ray_backend.bulk.watch import (
    GONE_S,
    PATIENCE_S,
    STOPPED,
    Patience,
    Sight,
)
from ray_backend.dashboard import DashboardError, Machine

POOL = Pool(2, 4, 0)
FREE = Machine(node_ip="10.0.0.1", state="ALIVE", resources_total={"CPU": 3.7})
BUSY = Sight(0, 2, (FREE,))
ONE = Sight(1, 1, (FREE,))
DONE = Sight(0, 0, (FREE,))
HOMELESS = replace(ONE, is_homeless=True)
AWAY = DashboardError("Ray's dashboard does not answer")
NO_ROOM = (
    "waiting for room: other work has taken it. Each needs 4 CPU; 10.0.0.1 has 3.7 CPU."
)
NO_ANSWER = "waiting for the cluster: Ray's dashboard does not answer"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([BUSY] * 9, []),
        ([BUSY] * 30, [NO_ROOM]),
        ([BUSY] * 9 + [ONE] + [BUSY] * 9, []),
        ([BUSY] * 12 + [ONE] + [BUSY] * 12, [NO_ROOM] * 2),
        ([ONE] * 30, []),
        ([DONE] * 30, []),
        ([AWAY] * 30, [NO_ANSWER]),
        ([BUSY] * 9 + [AWAY] * 9 + [BUSY] * 9, []),
        ([BUSY] * int(GONE_S) + [AWAY] * 12, [NO_ROOM, NO_ANSWER]),
    ],
    ids=[
        *(
            "not yet",
            "once",
            "room was found",
            "again",
            "one has room",
            "nothing to do",
        ),
        *("away", "something else each time", "away after a long wait"),
    ],
)
def test_what_lasts_is_said_once(seen, expected):
    said: list[str] = []
    patience = Patience(POOL, said.append)
    ends = [patience.judge(sight, float(second)) for second, sight in enumerate(seen)]
    assert said == expected
    assert set(ends) == {None}
    assert PATIENCE_S == 10


def test_a_cluster_that_stays_away_ends_the_run():
    patience = Patience(POOL, lambda _: None)
    assert patience.judge(AWAY, 7.0) is None
    assert patience.judge(AWAY, 6.0 + GONE_S) is None
    assert patience.judge(AWAY, 7.0 + GONE_S) == (
        "the cluster has been away for 600 s: Ray's dashboard does not answer"
    )


def test_a_run_whose_ray_has_ended_ends_at_once():
    patience = Patience(POOL, lambda _: None)
    assert patience.judge(ONE, 0.0) is None
    assert patience.judge(HOMELESS, 1.0) == (
        "Ray has ended on this machine; the same command goes on"
    )


_BEGINNING = """
import os, signal, threading, time
from ray_backend.bulk import watch
from ray_backend.bulk.room import Pool
from ray_backend.dashboard import DashboardError

signal.signal(signal.SIGINT, signal.default_int_handler)
watch.GONE_S = watch._LOOK_S = 0
is_inside = threading.Event()
"""


def run_alone(script: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which a watch may end."""
    return subprocess.run(
        [sys.executable, "-c", _BEGINNING + script],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("seen", "code", "said"),
    [
        ("raise DashboardError('away')", 1, "the cluster has been away for 0 s: away"),
        ("os.kill(os.getpid(), signal.SIGINT)", 130, STOPPED),
    ],
    ids=["the cluster is away", "Ctrl-C"],
)
def test_a_run_that_hears_no_signal_is_ended(seen, code, said):
    script = f"""
watch._END_S = 0

def look():
    assert is_inside.wait(60)
    is_inside.clear()
    {seen}
    return watch.Sight(1, 0, ())

with watch.Watch(look, Pool(1, 1, 0), lambda line: print(line, flush=True)):
    try:
        is_inside.set()
        while True:
            time.sleep(0.01)  # a signal just before it interrupts the next one
    except KeyboardInterrupt:
        time.sleep(60)
"""
    done = run_alone(script)
    assert (done.returncode, done.stdout, done.stderr) == (code, f"{said}\n", "")


def test_a_run_is_interrupted_once_the_cluster_is_lost():
    script = """
def look():
    assert is_inside.wait(60)
    raise DashboardError("away")

with watch.Watch(look, Pool(1, 1, 0), print) as seen:
    try:
        is_inside.set()
        while True:
            time.sleep(0.01)  # a signal just before it interrupts the next one
    except KeyboardInterrupt:
        pass
assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
print(seen.lost)
"""
    done = run_alone(script)
    expected = "the cluster has been away for 0 s: away\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
