"""`kill -9` of Java, with it all workers, and a reload, each under load: clients get answers,
and the stack heals itself. `tests/chaos` kills all the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from benchmarks.instruments.generator import (
    Asked,
    Request,
    Target,
    ask_within,
    keep_asking,
)
from deploy.stack import Stack
from tests.e2e.real_stack import is_ready, kill, wait_until

CLIENTS = 12
LIMIT_MS = 30_000
TARGETS = ("ko", "fr", "ar", "ja")


@pytest.fixture
def target(url: str) -> Target:
    wait_until(lambda: is_ready(url))
    body = {"src_lang": "en", "src_text": "Good evening"}
    bodies = (json.dumps(body | {"tgt_lang": language}) for language in TARGETS)
    return Target(url, [Request(each.encode(), "/translate") for each in bodies])


def wait_for_answers(asked: Asked) -> None:
    """Return when more requests than under way now are answered."""
    before = len(asked.replies)
    wait_until(lambda: sum(one.is_good for one in asked.replies[before:]) > CLIENTS)


def test_the_stack_heals_after_java_is_killed(stack: Stack, target: Target):
    with keep_asking(target, ask_within(LIMIT_MS), clients=CLIENTS) as asked:
        wait_for_answers(asked)
        kill(stack, "java")
        wait_for_answers(asked)
    assert asked.failed.keys() <= {"429", "503", "504"}, asked.failed


def test_a_reload_drops_no_request(
    stack: Stack, target: Target, deploy: Callable[..., str]
):
    old = {p.pid for p in stack.find_leader("gateway").children()}
    with keep_asking(target, ask_within(LIMIT_MS), clients=CLIENTS) as asked:
        wait_for_answers(asked)
        assert "Reloaded" in deploy("reload")
        wait_until(
            lambda: not old & {p.pid for p in stack.find_leader("gateway").children()}
        )
        wait_for_answers(asked)
    assert asked.failed == {}
