"""Clients that ask all the time, against a server that answers at once."""

from __future__ import annotations

import json

from benchmarks.instruments.asking import keep_asking
from benchmarks.instruments.cluster import wait_until
from benchmarks.instruments.generator import Manner, Request, Target
from tests.benchmarks.conftest import Server

REQUESTS = [Request(json.dumps({"number": 1}).encode())]


def test_clients_ask_until_the_end_and_no_reply_is_lost(server: Server):
    with keep_asking(Target(server.url, REQUESTS), Manner(), clients=3) as asked:
        wait_until(lambda: len(server.asked) >= 10, "ten requests")
    assert len(asked.replies) == len(server.asked)
    assert asked.failed == {}
    assert asked.slowest_s > 0


def test_what_is_no_good_answer_is_counted_by_what_it_was(server: Server):
    server.statuses = [503, 429, 503]
    with keep_asking(Target(server.url, REQUESTS), Manner(), clients=1) as asked:
        wait_until(lambda: len(server.asked) >= 4, "four requests")
    assert asked.failed == {"503": 2, "429": 1}
